import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";
import { RelayError } from "../event/errors.ts";
import type { ListenPort } from "./listen-port.ts";
import { cursorBody, filterOf, listenerName, listenQuery, startOf } from "./listen-query.ts";
import { listenStream } from "./listen-stream.ts";
import { createEventTexts } from "./listen-text.ts";
import { letLast } from "./long-request.ts";
import { parse } from "./queries.ts";
import type { OnRequest } from "./reading-routes.ts";

/** A connection that takes no byte for twice this long is closed: heartbeats alone would fill it much later. */
const patienceMs = 150_000;
/** Bytes that wait in memory for a connection, beside the page that is being written. */
const bufferedBytes = 64 * 1024;
/** While stopping: for a reader that does not even take the last word. */
const lastWordMs = 500;

/** `GET /v1/listen` and the cursors of those who listen: docs/listen.md. */
export function addListenRoutes(app: FastifyInstance, port: ListenPort, onRequest: OnRequest): void {
  const stopping = new AbortController();
  const open = new Set<Readable>();
  const texts = createEventTexts();
  // Open answers would hold up the end for ever.
  app.addHook("preClose", async () => {
    stopping.abort();
    port.after(lastWordMs, () => {
      for (const stream of open) stream.destroy();
    });
  });

  app.get("/v1/listen", { onRequest, exposeHeadRoute: false }, async (request, reply) => {
    const query = parse(listenQuery, request.query);
    const read = port.open(filterOf(query));
    const start = await startOf(query, headerText(request.headers["last-event-id"]), port);
    if (stopping.signal.aborted) throw new RelayError("shutting_down", "the relay is stopping", undefined, { retryAfterMs: 5_000 });

    let position = start.after;
    const leave = port.enter({ name: query.as ?? null, position: () => position });
    if (leave === null) {
      throw new RelayError("too_many_listeners", "as many listen as the relay takes", undefined, { retryAfterMs: 30_000 });
    }
    const gone = new AbortController();
    reply.raw.once("close", () => {
      gone.abort();
      leave();
      open.delete(stream);
      if (open.size === 0) texts.clear();
    });
    // From here on what is stored is owed to this name, also when the connection is cut before the first event.
    if (query.as !== undefined) await remember(query.as, start.after).catch(() => {});
    letLast(request.raw, reply.raw, patienceMs);
    request.raw.socket.setNoDelay?.(true);
    const allowed = () =>
      onRequest(request).then(
        () => true,
        () => false,
      );
    const moved = (seq: number): void => {
      position = seq;
    };
    const stream = Readable.from(listenStream({ port, read, start, texts, moved, allowed, stopping: stopping.signal, gone: gone.signal }), {
      objectMode: false,
      highWaterMark: bufferedBytes,
    });
    open.add(stream);
    return reply
      .headers({ "content-type": "text/event-stream", "cache-control": "no-store, no-transform", "x-accel-buffering": "no" })
      .send(stream);
  });

  async function remember(name: string, seq: number): Promise<void> {
    if ((await port.cursor(name)) === null) await port.moveCursor(name, seq);
  }

  app.post<{ Params: { name: string } }>("/v1/listen/cursors/:name", { onRequest }, async (request) => {
    const name = parse(listenerName, request.params.name);
    const { seq } = parse(cursorBody, request.body ?? undefined);
    const { newest } = await port.ends();
    if (seq > newest) throw new RelayError("bad_request", `seq: no event has it yet, the newest is ${newest}`);
    return { name, seq: await port.moveCursor(name, seq) };
  });
}

function headerText(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value;
}
