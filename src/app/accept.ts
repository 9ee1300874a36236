import type { Settings } from "../config/schema.ts";
import { accountsOf } from "../config/sources.ts";
import type { Clock } from "../model/clock.ts";
import type { ProxiedAnswer } from "../model/delivery.ts";
import { isTruncated } from "../model/envelope.ts";
import {
  type PolledStatus,
  polledEvent,
  type QuarantinedBody,
  type ReceivedEvent,
} from "../model/event.ts";
import type { Wamid } from "../model/ids.ts";
import { type MessageState, stepMessage } from "../model/tracking.ts";
import type { Logger, Privacy } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Store } from "../store/create-store.ts";
import type { AcceptOutcome, ReleasedEvent, SourceNote } from "../store/port.ts";
import { fieldsOf } from "./rules.ts";

interface AcceptingParts {
  readonly store: Pick<Store, "accept" | "announce" | "quarantine" | "release">;
  readonly metrics: Pick<Metrics, "dispositions" | "secretUses">;
  readonly log: Logger;
  readonly privacy: Privacy;
}

export type Accepting = ReturnType<typeof createAccepting>;

/**
 * The single entry for events, whether they come from webhooks, polls or quarantine. Every call
 * rejects when the store cannot write.
 */
export function createAccepting({ store, metrics, log, privacy }: AcceptingParts) {
  /** When each secret last verified an event, by source and fingerprint. */
  const secretUses = new Map<string, number>();
  const listeners: Record<"accepted" | "truncated", ((event: ReceivedEvent) => void)[]> = {
    accepted: [],
    truncated: [],
  };

  function note(event: ReceivedEvent, outcome: AcceptOutcome): AcceptOutcome {
    const { source, secret, envelope } = event;
    if (secret !== null && event.releaseOf === undefined)
      secretUses.set(`${source} ${secret}`, event.receivedAt);
    if (outcome.result === "accepted") {
      store.announce(outcome.due);
      for (const notify of listeners.accepted) notify(event);
      if (isTruncated(envelope)) for (const notify of listeners.truncated) notify(event);
      metrics.dispositions.inc({ source, disposition: outcome.disposition });
      if (secret !== null) metrics.secretUses.inc({ source, secret });
    } else if (outcome.conflict) {
      log.warn(
        { event: privacy.id("event", envelope.id), seq: outcome.seq, source },
        "a known event id came with other bytes; kept the first",
      );
    }
    return outcome;
  }

  return {
    on: (what: keyof typeof listeners, listener: (event: ReceivedEvent) => void): void =>
      void listeners[what].push(listener),
    /** Unix ms; undefined when this process has not seen it used. */
    lastUse: (source: string, secret: string): number | undefined =>
      secretUses.get(`${source} ${secret}`),
    /** `proxyRoute`: the route of the exchange that a `mode: proxy` source makes. */
    // With `then`: on this path, each async function costs as much as counting the event three
    // times.
    accept: (event: ReceivedEvent, proxyRoute: string | null = null): Promise<AcceptOutcome> =>
      store.accept(event, proxyRoute).then((outcome) => note(event, outcome)),
    async quarantine(body: QuarantinedBody) {
      const stored = await store.quarantine(body);
      if (stored.result === "quarantined")
        metrics.dispositions.inc({
          source: body.source,
          disposition: body.disposition ?? "quarantined",
        });
      return stored;
    },
    /** Null: the body is no longer in quarantine. */
    async release(event: ReleasedEvent): Promise<AcceptOutcome | null> {
      const outcome = await store.release(event);
      if (outcome === null) return null;
      metrics.dispositions.inc({ source: event.source, disposition: "released" });
      return note(event, outcome);
    },
  };
}

/** How often the same is noted, in ms, by each process. */
const everyMs = 60_000;
const mostRemembered = 10_000;

interface IntakeParts {
  readonly accepting: Pick<Accepting, "accept" | "quarantine" | "release">;
  readonly store: Pick<Store, "announce" | "nameRequest" | "noteSource" | "registerEach">;
  readonly settings: () => Settings;
  readonly clock: Pick<Clock, "now">;
  /** Of a source with `mode: proxy`. */
  readonly exchange: (event: ReceivedEvent) => Promise<ProxiedAnswer>;
}

export type Intake = ReturnType<typeof createIntake>;

/**
 * Accepts what webhooks bring, and notes when sources were verified by a handshake, and when each
 * number last had an event.
 */
export function createIntake({ accepting, store, settings, clock, exchange }: IntakeParts) {
  const noted = new Map<string, Pick<SourceNote, "account" | "at">>();

  /** Nobody waits for it. */
  function note(of: Omit<SourceNote, "at">): void {
    const key = `${of.source}/${of.number ?? ""}`;
    const at = clock.now();
    const before = noted.get(key);
    if (before !== undefined && before.account === of.account && Math.abs(at - before.at) < everyMs)
      return;
    if (noted.size >= mostRemembered) noted.clear();
    const now = { ...of, at };
    noted.set(key, now);
    store.noteSource(now).catch(() => noted.delete(key));
  }

  /** `number`: as the sender wrote it. `account`: empty when none has it. */
  function noteNumber(source: string, number: unknown, account: string): void {
    if (typeof number === "string" && /^\d{1,32}$/.test(number))
      note({ source, number, account: account || null });
  }

  /**
   * Notes the number of an item, and registers its message with what the sender attached to it,
   * where the source says so.
   */
  async function prepare({
    source: name,
    account,
    subject,
    receivedAt,
    envelope: { data },
  }: ReceivedEvent): Promise<void> {
    noteNumber(name, data["phoneNumberId"] ?? data["wabaId"], account);
    const source = settings().sources[name];
    if (source?.kind !== "events" || source.format !== "meta" || source.registerBy === undefined)
      return;
    if (subject.type !== "message" || subject.reference === undefined) return;
    const { wamid, reference } = subject;
    const [outcome] = await store.registerEach([{ account, wamid, reference }], receivedAt);
    // A conflict keeps what is registered.
    if (outcome !== undefined && outcome.result !== "conflict") store.announce(outcome.due);
  }

  /**
   * Gives a signed request the event id that the same bytes got before within `dedupe`, in any
   * process.
   */
  async function named(event: ReceivedEvent): Promise<ReceivedEvent> {
    const source = settings().sources[event.source];
    const { request, envelope } = event;
    if (request === undefined || source?.kind !== "automation-request" || source.dedupe === 0)
      return event;
    const id = await store.nameRequest(request, envelope.id, event.receivedAt, source.dedupe);
    return id === envelope.id ? event : { ...event, envelope: { ...envelope, id } };
  }

  return {
    handshake: (source: string): void => note({ source, number: null, account: null }),
    event(event: ReceivedEvent): Promise<AcceptOutcome> {
      if (event.format === undefined) {
        return event.request === undefined
          ? accepting.accept(event)
          : named(event).then((one) => accepting.accept(one));
      }
      return prepare(event).then(() => accepting.accept(event));
    },
    async release(event: ReleasedEvent): Promise<AcceptOutcome | null> {
      if (event.format !== undefined) await prepare(event);
      return accepting.release(event);
    },
    quarantine(body: QuarantinedBody) {
      noteNumber(body.source, body.number, "");
      return accepting.quarantine(body);
    },
    proxy: async (event: ReceivedEvent): Promise<ProxiedAnswer> => exchange(await named(event)),
  };
}

interface FoundStatus
  extends Omit<PolledStatus, "source" | "fields" | "wamid" | "errorCode" | "at"> {
  readonly wamid: string;
  readonly errorCode: string | null;
  /** Default: the first source of the account's events, or if it has none, the account's name. */
  readonly source?: string;
}

interface StatusIntakeParts {
  readonly settings: () => Settings;
  readonly clock: Pick<Clock, "now">;
  readonly accepting: Pick<Accepting, "accept">;
}

export type StatusIntake = ReturnType<typeof createStatusIntake>;

/**
 * Submits polled statuses as the events that webhooks of the account's source would have brought.
 */
export function createStatusIntake({ settings, clock: { now }, accepting }: StatusIntakeParts) {
  /** False: the status does not change a message of this state, or was submitted before. */
  return async (
    state: MessageState,
    { wamid, source, ...found }: FoundStatus,
  ): Promise<boolean> => {
    const { status, errorCode } = found;
    if (stepMessage(state, { status, error: errorCode, at: now() }).transition === null)
      return false;
    const from = source ?? sourceOf(settings(), found.account);
    const fields = fieldsOf(settings().sources[from]);
    const event = polledEvent({ ...found, wamid: wamid as Wamid, source: from, fields, at: now() });
    return (await accepting.accept(event)).result === "accepted";
  };
}

function sourceOf({ sources }: Settings, account: string): string {
  const found = Object.entries(sources).find(
    ([, source]) => source.kind === "events" && accountsOf(source).includes(account),
  );
  return found?.[0] ?? account;
}
