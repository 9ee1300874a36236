import type { ListenedEvent, ListenPage } from "../model/listen.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Limited } from "../model/queries.ts";
import { message, type StreamEnds, type StreamPort, wakeUp } from "./sse.ts";

/** Fields that are not set match every event. */
export interface ListenFilter extends Limited {
  readonly sources?: readonly string[] | undefined;
  /** Kinds, with `*` as in routes. */
  readonly events?: readonly string[] | undefined;
  readonly statuses?: readonly string[] | undefined;
  readonly tracked?: boolean | undefined;
  /** A condition on `data`, as in routes. */
  readonly where?: unknown;
}

/** Reads the next events after a seq. `use` runs at once, so that its time counts toward the share of time for listeners. */
type ReadPage = <T>(after: number, use: (page: ListenPage) => T) => Promise<T>;

/** A connected listener, for the metrics. */
export interface Listener {
  /** `as=` of the request, or null. */
  readonly name: string | null;
  /** Everything up to this seq was written to the connection. */
  readonly position: () => number;
}

/** Times are unix ms. */
export interface ListenPort extends StreamPort {
  /** For the events that match. Throws `bad_request` for an invalid filter. */
  open(filter: ListenFilter): ReadPage;
  /** Seqs of the oldest and newest stored event, 0 when there is none, and when the oldest was received. */
  ends(): MaybePromise<{ readonly oldest: number; readonly newest: number; readonly oldestAt: number | null }>;
  /** The seq after which all events of this time and later are. */
  seqBefore(time: number): MaybePromise<number>;
  /** Null when no listener has used this name. */
  cursor(name: string): MaybePromise<number | null>;
  /** A cursor never moves back; returns its current position. */
  moveCursor(name: string, seq: number): Promise<number>;
  /** Reserves a slot for one more listener; null when there is none. The returned function releases it. */
  enter(listener: Listener): (() => void) | null;
  now(): number;
  /** How long events are kept, in ms. */
  retention(): number;
  readonly version: string;
}

export interface Start {
  readonly after: number;
  /** True when the listener has seen events that this store does not have: it is another store, or an older copy. */
  readonly reset: boolean;
}

/** A listener that receives nothing for three heartbeats can treat the connection as dead. */
const heartbeatMs = 15_000;
/** A listener with few matches gets its position this often at most, so that a reconnect need not search again. */
const positionEveryMs = 1_000;

interface ListenStreamParts extends StreamEnds {
  readonly port: ListenPort;
  readonly read: ReadPage;
  readonly start: Start;
  readonly texts: EventTexts;
  /** Called as the position moves. */
  readonly moved: (seq: number) => void;
}

/**
 * Server-sent events, a page at a time (docs/how-to/develop-with-production-events.md). The next page is read once the previous one was taken, so a slow
 * reader costs one page of memory. Ends when `gone` or `stopping` is aborted.
 */
export async function* listenStream({
  port,
  read,
  start,
  texts,
  moved,
  allowed,
  stopping,
  gone,
}: ListenStreamParts): AsyncGenerator<string, void> {
  let position = start.after;
  let reported = position;
  let sentAt = port.now();
  const sent = (text: string): string => {
    reported = position;
    sentAt = port.now();
    moved(position);
    return text;
  };
  const newest = async () => (await port.ends()).newest;

  const { oldestAt, newest: newestNow } = await port.ends();
  const hello = {
    relay: port.version,
    after: start.after,
    newest: newestNow,
    reset: start.reset,
    keptFrom: oldestAt === null ? null : new Date(oldestAt).toISOString(),
    retentionMs: port.retention(),
  };
  // The first message has the position, so that a listener cut off before the first event misses none.
  yield sent(`retry: 2000\n${message("hello", hello, position)}`);

  let missing: ListenPage["missing"] = null;
  while (!gone.aborted) {
    if (stopping.aborted) {
      yield message("bye", { reason: "the relay is stopping" }, null);
      return;
    }
    const woken = wakeUp(port, [stopping, gone]);
    const before = position;
    try {
      const { text, atEnd } = await read(position, (page) => {
        missing = joined(missing, page.missing);
        position = page.through;
        const gap = missing !== null && (page.events.length > 0 || page.atEnd) ? message("gap", missing, null) : "";
        if (gap !== "") missing = null;
        return { atEnd: page.atEnd, text: gap + page.events.map(texts.of).join("") };
      });
      // After the read, which waits for its turn: the settings may have changed meanwhile.
      if (!(await allowed())) {
        yield message("bye", { reason: "the token is no longer valid" }, null);
        return;
      }
      // A store that lost its data starts its seqs again, and would send nothing here until they pass this position.
      if (position === before && text === "" && (await newest()) < position) {
        yield message("bye", { reason: "the store has lost events that were sent here" }, null);
        return;
      }
      if (text !== "") yield sent(text);
      else if (position > reported && port.now() - sentAt >= positionEveryMs)
        yield sent(message("at", { seq: position, newest: await newest() }, position));
      if (!atEnd) continue;
      while (!woken.isDone()) {
        const isBehind = position > reported;
        const rest = (isBehind ? positionEveryMs : heartbeatMs) - (port.now() - sentAt);
        await woken.within(Math.max(0, rest));
        if (woken.isDone() || !(await allowed())) break;
        yield sent(isBehind ? message("at", { seq: position, newest: await newest() }, position) : ": still here\n\n");
      }
    } finally {
      woken.end();
    }
  }
}

function joined(before: ListenPage["missing"], next: ListenPage["missing"]): ListenPage["missing"] {
  if (before === null || next === null) return before ?? next;
  return { from: before.from, to: next.to, count: before.count + next.count };
}

interface EventTexts {
  of(event: ListenedEvent): string;
  clear(): void;
}

/** Characters cached, a byte each: the events of the last seconds, shared by all listeners. */
const mostCached = 8 * 1024 * 1024;

/** Caches the text of each event, because listeners receive the same ones at about the same time. */
export function createEventTexts(most = mostCached): EventTexts {
  const kept = new Map<string, string>();
  let length = 0;

  return {
    of(event) {
      // The fields that may change after the event was stored.
      const key = `${event.seq} ${event.disposition} ${event.tracked}`;
      let text = kept.get(key);
      if (text !== undefined) return text;
      text = message("event", present(event), event.seq);
      if (text.length > most / 4) return text;
      kept.set(key, text);
      length += text.length;
      for (const [old, { length: freed }] of kept) {
        if (length <= most) break;
        kept.delete(old);
        length -= freed;
      }
      return text;
    },
    clear() {
      kept.clear();
      length = 0;
    },
  };
}

/** Bytes as base64: text in JSON would lose what is not UTF-8. */
function present({ content, receivedAt, ...rest }: ListenedEvent) {
  const { headers, body } = content();
  return { ...rest, receivedAt: new Date(receivedAt).toISOString(), headers, body: body.toString("base64") };
}
