import type { Emit, Publisher } from "../events/publisher.ts";
import { type MetaFaults, mostUpdates } from "../faults.ts";
import { isReported } from "../statuses.ts";
import {
  type Core,
  type MessageRecord,
  mainAccount,
  type SendingNumber,
  wabaIdOf,
} from "../world.ts";
import {
  asMetaWrites,
  isStruck,
  type Json,
  type MessageFacts,
  receivedUpdate,
  requestBody,
  statusUpdates,
  type Update,
} from "./updates.ts";

interface MetaParts {
  readonly emit: Emit;
  readonly faults: () => MetaFaults;
  readonly malformed: () => number;
  readonly hasReceiver: () => boolean;
}

/** The machine's, for a status that is posted before the send is answered. */
const longestWaitMs = 5_000;

/** All accounts' updates go to the URLs of `main`: an app of Meta has one callback. */
export function createMetaPublisher(
  core: Core,
  { faults, malformed, emit, hasReceiver }: MetaParts,
) {
  const { world, clock, baseClock, owned, speed } = core;
  let gathered: Update[] = [];
  let cancel: (() => void) | null = null;
  /** By wamid, sends that are answered once their first status was posted. */
  const early = new Map<string, () => void>();

  const request = (gathered: readonly Update[]): void => {
    const updates = withWrongItem(gathered, malformed());
    const [wamid, ...others] = new Set(gathered.map((update) => update.wamid));
    const [first] = updates;
    const status =
      first === undefined || first.list === null ? null : (first.item as Json)["status"];
    emit({
      ...owned(mainAccount),
      event: [...new Set(gathered.map(({ field }) => field))].join(","),
      // Requests about one message seldom overtake each other; Meta keeps no other order.
      wamid: others.length === 0 ? (wamid ?? null) : null,
      runId: null,
      status:
        updates.length > 1 ? `(${updates.length} updates)` : ((status ?? null) as string | null),
      body: requestBody(updates),
    });
  };
  const flush = (): void => {
    cancel?.();
    cancel = null;
    const all = gathered;
    gathered = [];
    for (let from = 0; from < all.length; from += mostUpdates)
      request(all.slice(from, from + mostUpdates));
  };
  const add = (updates: readonly Update[]): void => {
    const { batch, batchMs } = faults();
    gathered.push(...updates);
    if (gathered.length >= batch) flush();
    else if (gathered.length > 0) cancel ??= clock.after(batchMs / speed, flush);
  };
  const factsOf = (message: MessageRecord): MessageFacts => {
    const { account, phoneNumberId, contactId } = message;
    const number = world.accounts
      .get(account)
      ?.numbers.find((one) => one.phoneNumberId === phoneNumberId) as SendingNumber;
    return {
      message,
      number,
      wabaId: wabaIdOf(account),
      contact: world.contacts.get(contactId),
      now: clock.now(),
    };
  };
  const publisher: Publisher = {
    messageStatus(message) {
      if (isReported(message.status)) add(statusUpdates(factsOf(message), faults()));
    },
    messageReceived: (message) => add([receivedUpdate(factsOf(message), faults())]),
    runEnded() {},
    publish: (account, field, value) =>
      add([
        { field, list: null, wabaId: wabaIdOf(account), wamid: null, value, time: clock.now() },
      ]),
  };
  return {
    publisher,
    gathered: () => gathered.length,
    flush,
    posted(body: Buffer): void {
      if (early.size === 0) return;
      const text = body.toString("latin1");
      for (const [wamid, answer] of early) if (text.includes(asMetaWrites(wamid))) answer();
    },
    /**
     * Some answers to sends wait until the first status was posted: the sender then sees a status
     * of an unknown id.
     */
    async answerAfter({ wamid, future }: MessageRecord): Promise<void> {
      if (future.length === 0 || !hasReceiver() || !isStruck("early", wamid, faults().early))
        return;
      const { promise, resolve } = Promise.withResolvers<void>();
      early.set(wamid, resolve);
      const cancelWait = baseClock.after(longestWaitMs, resolve);
      await promise;
      cancelWait();
      early.delete(wamid);
    },
  };
}

/** For this share of requests, a wrong item stands in the middle. */
function withWrongItem(updates: readonly Update[], share: number): readonly Update[] {
  const [first] = updates;
  if (first === undefined || first.list === null) return updates;
  const { id, status } = first.item as Json;
  if (!isStruck("malformed", `${id}/${status}`, share)) return updates;
  const middle = Math.ceil(updates.length / 2);
  return [
    ...updates.slice(0, middle),
    { ...first, list: "statuses", contact: null, item: 7 },
    ...updates.slice(middle),
  ];
}
