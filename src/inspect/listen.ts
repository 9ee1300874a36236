import type { FastifyInstance } from "fastify";
import type { Handlers } from "../control/endpoint.ts";
import { createStreams, message, noRoom, type StreamEnds, streamTurns } from "../control/sse.ts";
import type { ListenedEvent, ListenPage, ListenQuery } from "../model/endpoints/stream.ts";
import { RelayError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Listening } from "./listening.ts";

export type ListenPort = Listening["port"];

export function createListenHandlers(app: FastifyInstance, port: ListenPort) {
  const streams = createStreams(app, port);
  const textOf = createEventTexts();
  return {
    async listen(query, context) {
      // The listeners of all tokens share the cursors.
      if (query.as !== undefined && query.accounts !== undefined)
        throw new RelayError(
          "forbidden",
          "as: the token is limited to accounts, and names are those of the whole relay; use after",
        );
      const read = port.open(query);
      const start = await startOf(query, query["last-event-id"], port);
      // Set the cursor now: events from here on are for this name, even if the connection is cut
      // before the first one.
      if (query.as !== undefined) await remember(query.as, start.after).catch(() => {});
      streams.refuseWhileStopping();
      let position = start.after;
      const leave = port.enter({ name: query.as ?? null, position: () => position });
      if (leave === null) throw noRoom();
      const moved = (seq: number): void => {
        position = seq;
      };
      return streams.send(
        context,
        (ends) => listenStream({ port, read, start, textOf, moved, ...ends }),
        leave,
      );
    },
    async moveCursor({ name, seq }) {
      const { newest } = await port.ends();
      if (seq > newest)
        throw new RelayError("bad_request", `seq: no event has it yet, the newest is ${newest}`);
      return { name, seq: await port.setCursor(name, seq) };
    },
  } satisfies Partial<Handlers>;

  async function remember(name: string, seq: number): Promise<void> {
    if ((await port.cursor(name)) === null) await port.setCursor(name, seq);
  }
}

interface Start {
  readonly after: number;
  /**
   * True when the listener has seen events that this store does not have: it is another store, or
   * an older copy.
   */
  readonly reset: boolean;
}

/**
 * Where a listener begins: after `Last-Event-ID`, else `after`, `since`, `latest`, its cursor, now.
 */
export async function startOf(
  query: ListenQuery,
  lastId: string | undefined,
  port: ListenPort,
): Promise<Start> {
  const { newest } = await port.ends();
  const known = await resumeAt(query, lastId, port);
  return { after: Math.min(known ?? newest, newest), reset: known !== null && known > newest };
}

function resumeAt(
  { after, since, latest, as }: ListenQuery,
  lastId: string | undefined,
  port: ListenPort,
): MaybePromise<number | null> {
  if (lastId) return Number(lastId);
  if (after !== undefined) return after;
  if (since !== undefined)
    return port.seqBefore(typeof since === "number" ? port.now() - since : since.getTime());
  if (latest === true || as === undefined) return null;
  return port.cursor(as);
}

/** A listener that receives nothing for three heartbeats can treat the connection as dead. */
const heartbeatMs = 15_000;
/**
 * A listener with few matches gets its position this often at most, so that a reconnect need not
 * search again.
 */
const positionEveryMs = 1_000;

interface ListenStreamParts extends StreamEnds {
  readonly port: ListenPort;
  readonly read: ReturnType<ListenPort["open"]>;
  readonly start: Start;
  readonly textOf: EventTexts;
  readonly moved: (seq: number) => void;
}

/** Server-sent events, a page at a time (docs/how-to/develop-with-production-events.md). */
export async function* listenStream(parts: ListenStreamParts): AsyncGenerator<string, void> {
  const { port, read, start, textOf, moved, allowed, ...ends } = parts;
  let position = start.after;
  let reported = position;
  let sentAt = port.now();
  let missing: ListenPage["missing"] = null;
  const sent = (text: string) => {
    reported = position;
    sentAt = port.now();
    moved(position);
    return text;
  };

  const { oldestAt, newest } = await port.ends();
  const hello = {
    relay: port.version,
    after: start.after,
    newest,
    reset: start.reset,
    keptFrom: oldestAt === null ? null : new Date(oldestAt).toISOString(),
    retentionMs: port.retention(),
  };
  // The first message has the position, so that a listener cut off before the first event misses
  // none.
  yield sent(`retry: 2000\n${message("hello", hello, position)}`);

  yield* streamTurns(port, ends, async () => {
    const before = position;
    const { events, atEnd } = await read(position, (page) => {
      missing = joined(missing, page.missing);
      position = page.through;
      const gap =
        missing !== null && (page.events.length > 0 || page.atEnd)
          ? message("gap", missing, null)
          : "";
      if (gap !== "") missing = null;
      return { atEnd: page.atEnd, events: gap + page.events.map(textOf).join("") };
    });
    // After the read, which waits for its turn: the settings may have changed meanwhile.
    if (!(await allowed())) return { text: "", bye: "the token is no longer valid", nextAt: 0 };
    let text = events === "" ? "" : sent(events);
    if (text === "") {
      const { newest } = await port.ends();
      // A store that lost its data starts its seqs again, and would send nothing here until they
      // pass this position.
      if (position === before && newest < position)
        return { text, bye: "the store has lost events that were sent here", nextAt: 0 };
      const quietMs = port.now() - sentAt;
      if (position > reported && quietMs >= positionEveryMs)
        text = sent(message("at", { seq: position, newest }, position));
      else if (quietMs >= heartbeatMs) text = sent(": still here\n\n");
    }
    return {
      text,
      nextAt: atEnd ? sentAt + (position > reported ? positionEveryMs : heartbeatMs) : 0,
    };
  });
}

function joined(before: ListenPage["missing"], next: ListenPage["missing"]): ListenPage["missing"] {
  if (before === null || next === null) return before ?? next;
  return { from: before.from, to: next.to, count: before.count + next.count };
}

/** Characters cached, a byte each: the events of the last seconds, shared by all listeners. */
const mostCached = 8 * 1024 * 1024;

type EventTexts = (event: ListenedEvent) => string;

/**
 * Caches the text of each event, because listeners receive the same ones at about the same time.
 */
function createEventTexts(): EventTexts {
  const kept = new Map<string, string>();
  let length = 0;

  return (event) => {
    // The fields that may change after the event was stored.
    const key = `${event.seq} ${event.disposition} ${event.tracked}`;
    let text = kept.get(key);
    if (text !== undefined) return text;
    text = message("event", present(event), event.seq);
    if (text.length > mostCached / 4) return text;
    kept.set(key, text);
    length += text.length;
    for (const [old, { length: freed }] of kept) {
      if (length <= mostCached) break;
      kept.delete(old);
      length -= freed;
    }
    return text;
  };
}

/** Bytes as base64: text in JSON would lose what is not UTF-8. */
function present({ content, receivedAt, ...rest }: ListenedEvent) {
  const { headers, body } = content();
  return {
    ...rest,
    receivedAt: new Date(receivedAt).toISOString(),
    headers,
    body: body.toString("base64"),
  };
}
