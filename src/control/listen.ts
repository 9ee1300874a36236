import type { FastifyInstance } from "fastify";
import type { ListenQuery } from "../model/endpoints/stream.ts";
import { RelayError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Limited } from "../model/queries.ts";
import type { Handlers } from "./endpoint.ts";
import { createEventTexts, type ListenFilter, type ListenPort, listenStream, type Start } from "./listen-stream.ts";
import { createStreams, noRoom } from "./sse.ts";

/** Registers the end of the streams with `app`. */
export function createListenHandlers(app: FastifyInstance, port: ListenPort): Pick<Handlers, "listen" | "moveCursor"> {
  const streams = createStreams(app, port);
  const texts = createEventTexts();
  const listen: Handlers["listen"] = async (query, context) => {
    // The listeners of all tokens share the cursors.
    if (query.as !== undefined && query.accounts !== undefined)
      throw new RelayError("forbidden", "as: the token is limited to accounts, and names are those of the whole relay; use after");
    const read = port.open(filterOf(query));
    const start = await startOf(query, query["last-event-id"], port);
    // Set the cursor now: events from here on are for this name, even if the connection is cut before the first one.
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
      (ends) => listenStream({ port, read, start, texts, moved, ...ends }),
      () => {
        leave();
        if (streams.size() === 0) texts.clear();
      },
    );
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
