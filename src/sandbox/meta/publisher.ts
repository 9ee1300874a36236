import type { Clock } from "../../model/clock.ts";
import type { Publisher } from "../events/publisher.ts";
import type { MetaFaults } from "../faults.ts";
import { isReported } from "../statuses.ts";
import type { EventRecord, MessageRecord } from "../world/records.ts";
import { mainAccount, type World, wabaIdOf } from "../world/world.ts";
import { type MessageFacts, receivedUpdate, statusUpdates } from "./message-updates.ts";
import { mostUpdates, requestBody } from "./request-body.ts";
import { isStruck, type Json, type Update } from "./update.ts";

interface MetaPublisherSettings {
  readonly world: World;
  readonly clock: Clock;
  readonly ids: () => string;
  readonly faults: () => MetaFaults;
  readonly malformed: () => number;
  readonly speed: number;
  readonly emit: (record: EventRecord) => void;
  readonly onError: (error: unknown) => void;
}

export type MetaPublisher = ReturnType<typeof createMetaPublisher>;

/** All accounts' updates go to the URLs of `main`: an app of Meta has one callback. */
export function createMetaPublisher(settings: MetaPublisherSettings) {
  const { world, clock, ids, faults, malformed, speed, emit, onError } = settings;
  let gathered: Update[] = [];
  let cancel: (() => void) | null = null;

  const request = (updates: readonly Update[]): EventRecord => {
    const wamids = new Set(updates.map(({ wamid }) => wamid));
    const [wamid = null] = wamids;
    const record = {
      id: ids(),
      account: mainAccount,
      createdAt: clock.now(),
      event: [...new Set(updates.map(({ field }) => field))].join(","),
      // Requests about one message seldom overtake each other; Meta keeps no other order.
      wamid: wamids.size === 1 ? wamid : null,
      runId: null,
      body: requestBody(withWrongItem(updates, malformed())),
    };
    emit(record);
    return record;
  };
  const flush = (): void => {
    cancel?.();
    cancel = null;
    const all = gathered;
    gathered = [];
    for (let from = 0; from < all.length; from += mostUpdates) request(all.slice(from, from + mostUpdates));
  };
  const add = (updates: readonly Update[]): void => {
    const { batch, batchMs } = faults();
    gathered.push(...updates);
    if (gathered.length >= batch) flush();
    else if (gathered.length > 0) cancel ??= clock.after(batchMs / speed, flush);
  };
  const guarded = (work: () => void): void => {
    try {
      work();
    } catch (error) {
      onError(error);
    }
  };
  const factsOf = (message: MessageRecord): MessageFacts | null => {
    const number = world.accounts.get(message.account)?.numbers.find(({ phoneNumberId }) => phoneNumberId === message.phoneNumberId);
    if (number === undefined) return null;
    return { message, number, wabaId: wabaIdOf(message.account), contact: world.contacts.get(message.contactId), now: clock.now() };
  };
  const publisher: Publisher = {
    messageStatus: (message) =>
      guarded(() => {
        const facts = isReported(message.status) ? factsOf(message) : null;
        if (facts !== null) add(statusUpdates(facts, faults()));
      }),
    messageReceived: (message) =>
      guarded(() => {
        const facts = factsOf(message);
        if (facts !== null) add([receivedUpdate(facts, faults())]);
      }),
    // Meta has no automations.
    automationCompleted() {},
    automationFailed() {},
    publish: (account, field, value) =>
      guarded(() => add([{ field, list: null, wabaId: wabaIdOf(account), wamid: null, value, time: clock.now() }])),
  };
  return { ...publisher, request, gathered: () => gathered.length, flush };
}

/** For this share of requests, a wrong item stands in the middle. */
function withWrongItem(updates: readonly Update[], share: number): readonly Update[] {
  const [first] = updates;
  if (first === undefined || first.list === null) return updates;
  const { id, status } = first.item as Json;
  if (!isStruck("malformed", `${id}/${status}`, share)) return updates;
  const middle = Math.ceil(updates.length / 2);
  return [...updates.slice(0, middle), { ...first, list: "statuses", contact: null, item: 7 }, ...updates.slice(middle)];
}

const longestWaitMs = 5_000;

export type EarlyStatuses = ReturnType<typeof createEarlyStatuses>;

/** Some answers to sends wait until the first status was posted: the sender then sees a status of an unknown id. */
export function createEarlyStatuses(parts: {
  readonly baseClock: Clock;
  readonly faults: () => MetaFaults;
  readonly hasReceiver: () => boolean;
}) {
  const { baseClock, faults, hasReceiver } = parts;
  const waiting = new Map<string, () => void>();
  return {
    posted(body: Buffer): void {
      if (waiting.size === 0) return;
      const text = body.toString("latin1");
      // The body escapes slashes.
      for (const [wamid, resolve] of waiting) if (text.includes(JSON.stringify(wamid).replaceAll("/", "\\/"))) resolve();
    },
    async before({ wamid, future }: Pick<MessageRecord, "wamid" | "future">): Promise<void> {
      if (future.length === 0 || !hasReceiver() || !isStruck("early", wamid, faults().early)) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.set(wamid, resolve);
      const cancel = baseClock.after(longestWaitMs, resolve);
      await promise;
      cancel();
      waiting.delete(wamid);
    },
  };
}
