import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { RelayError } from "../event/errors.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";
import type { ListenPort } from "./listen-port.ts";
import { cursorBody, filterOf, listenerName, listenQuery, startOf } from "./listen-query.ts";
import { listenStream } from "./listen-stream.ts";
import { createEventTexts } from "./listen-text.ts";
import { letLast } from "./long-request.ts";

/** A connection that takes no byte for twice this long is closed: heartbeats alone would fill it much later. */
const patienceMs = 150_000;
/** Bytes that wait in memory for a connection, beside the page that is being written. */
const bufferedBytes = 64 * 1024;
/** While stopping: for a reader that does not even take the last word. */
const lastWordMs = 500;

const listen = {
  method: "GET",
  path: "/v1/listen",
  name: "listen",
  scope: "listen",
  summary: "Events as they are stored, whole bodies with them, until either side ends it",
  description:
    "Of several places to begin the first counts: `Last-Event-ID`, `after`, `since`, `latest`, `as`; without any, now. A comment comes every 15 s when nothing else does.",
  query: listenQuery,
  headers: z.object({
    "last-event-id": z
      .string()
      // Not another place to begin instead: the events in between would be skipped. An empty one is none, as in browsers.
      .regex(/^(?:\d{1,15})?$/, "is not the id of an event of this stream (a whole number)")
      .optional()
      .describe("Of the last one heard, to go on after it."),
  }),
  answers: { 200: { text: "Server-sent events: `hello`, `event`, `gap`, `at`, `bye`.", types: ["text/event-stream"] } },
  errors: ["too_many_listeners", "shutting_down"],
  head: false,
} as const;

const cursor = {
  method: "POST",
  path: "/v1/listen/cursors/:name",
  name: "moveCursor",
  scope: "listen",
  summary: "Says that everything up to a seq is done with under a name",
  params: z.strictObject({ name: listenerName }),
  body: cursorBody,
  answers: { 200: "Where the cursor stands: it never goes back." },
} as const;

/** `GET /v1/listen` and the cursors of those who listen: docs/listen.md. */
export function addListenRoutes(app: FastifyInstance, port: ListenPort, allow: Allow): void {
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

  addEndpoint(app, allow, listen, async ({ query, headers, request, reply }) => {
    const read = port.open(filterOf(query));
    const start = await startOf(query, headers["last-event-id"], port);
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
      allow(listen.scope)(request).then(
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

  addEndpoint(app, allow, cursor, async ({ params: { name }, body: { seq } }) => {
    const { newest } = await port.ends();
    if (seq > newest) throw new RelayError("bad_request", `seq: no event has it yet, the newest is ${newest}`);
    return { name, seq: await port.moveCursor(name, seq) };
  });
}
