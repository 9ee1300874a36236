import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";
import type { ListenQuery } from "../model/endpoints/stream.ts";
import { RelayError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Limited } from "../model/queries.ts";
import type { Handlers } from "./endpoint.ts";
import { createEventTexts, type ListenFilter, type ListenPort, listenStream, type Start } from "./listen-stream.ts";

/** Bytes buffered for a connection, beside the page being written. */
const bufferedBytes = 64 * 1024;
/** While stopping, for a reader that does not take even the `bye`. */
const byeWithinMs = 500;

/** Registers the end of the streams with `app`. */
export function createListenHandlers(app: FastifyInstance, port: ListenPort): Pick<Handlers, "listen" | "moveCursor"> {
  const stopping = new AbortController();
  const open = new Set<Readable>();
  const texts = createEventTexts();
  // Open answers would keep the server from closing.
  app.addHook("preClose", async () => {
    stopping.abort();
    port.after(byeWithinMs, () => {
      for (const stream of open) stream.destroy();
    });
  });

  const listen: Handlers["listen"] = async (query, { request, reply, isAllowed }) => {
    // The listeners of all tokens share the cursors.
    if (query.as !== undefined && query.accounts !== undefined)
      throw new RelayError("forbidden", "as: the token is limited to accounts, and names are those of the whole relay; use after");
    const read = port.open(filterOf(query));
    const start = await startOf(query, query["last-event-id"], port);
    if (stopping.signal.aborted) throw new RelayError("shutting_down", "the relay is stopping", undefined, { retryAfterMs: 5_000 });

    let position = start.after;
    const leave = port.enter({ name: query.as ?? null, position: () => position });
    if (leave === null) {
      throw new RelayError("too_many_listeners", "the relay has no room for another listener", undefined, { retryAfterMs: 30_000 });
    }
    const gone = new AbortController();
    reply.raw.once("close", () => {
      gone.abort();
      leave();
      open.delete(stream);
      if (open.size === 0) texts.clear();
    });
    // Set the cursor now: events from here on are for this name, even if the connection is cut before the first one.
    if (query.as !== undefined) await remember(query.as, start.after).catch(() => {});
    request.raw.socket.setNoDelay?.(true);
    const moved = (seq: number): void => {
      position = seq;
    };
    const stream = Readable.from(
      listenStream({ port, read, start, texts, moved, allowed: isAllowed, stopping: stopping.signal, gone: gone.signal }),
      {
        objectMode: false,
        highWaterMark: bufferedBytes,
      },
    );
    open.add(stream);
    return reply
      .headers({ "content-type": "text/event-stream", "cache-control": "no-store, no-transform", "x-accel-buffering": "no" })
      .send(stream);
  };

  async function remember(name: string, seq: number): Promise<void> {
    if ((await port.cursor(name)) === null) await port.moveCursor(name, seq);
  }

  return {
    listen,
    async moveCursor({ name, seq }) {
      const { newest } = await port.ends();
      if (seq > newest) throw new RelayError("bad_request", `seq: no event has it yet, the newest is ${newest}`);
      return { name, seq: await port.moveCursor(name, seq) };
    },
  };
}

function filterOf({ accounts, source, events, status, tracked, where }: ListenQuery & Limited): ListenFilter {
  return { accounts, sources: source, events, statuses: status, tracked, ...(where === undefined ? {} : { where: parseJson(where) }) };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new RelayError("bad_request", "where: is not valid JSON", [{ path: "where", message: "is not valid JSON" }]);
  }
}

/** Where a listener begins: after `Last-Event-ID`, else `after`, `since`, `latest`, its cursor, now. */
export async function startOf(query: ListenQuery, lastId: string | undefined, port: ListenPort): Promise<Start> {
  const { newest } = await port.ends();
  const known = await resumeAt(query, lastId, port);
  if (known === null) return { after: newest, reset: false };
  return known > newest ? { after: newest, reset: true } : { after: known, reset: false };
}

function resumeAt({ after, since, latest, as }: ListenQuery, lastId: string | undefined, port: ListenPort): MaybePromise<number | null> {
  if (lastId) return Number(lastId);
  if (after !== undefined) return after;
  if (since !== undefined) return port.seqBefore(typeof since === "number" ? port.now() - since : since.getTime());
  if (latest === true || as === undefined) return null;
  return port.cursor(as);
}
