import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { cursorSchema } from "../model/answers.ts";
import { RelayError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { durationSchema } from "../model/units.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";
import { createEventTexts, type ListenFilter, type ListenPort, listenStream, type Start } from "./listen-stream.ts";
import { allowLongRequest } from "./long-request.ts";

const seq = z.coerce.number().int().min(0);
const flag = z.enum(["true", "false"]).transform((text) => text === "true");
const words = z
  .union([z.string(), z.array(z.string())])
  .transform((given) => (Array.isArray(given) ? given : [given]).flatMap((text) => text.split(",")).map((text) => text.trim()))
  .refine((list) => list.every((word) => word !== ""), "has an empty word")
  .refine((list) => list.length <= 100, "has more than 100 words");

const listenerName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "is not a name (letters, digits, . _ -, at most 64)");

const listenQuery = z.strictObject({
  source: words.optional().describe("Only of these; several with commas between."),
  events: words.optional().describe("Only of these kinds, with `*` as in routes; several with commas between."),
  status: words.optional().describe("Only with these; several with commas between."),
  tracked: flag.optional().describe("Only of messages and runs that are registered now, or only of others."),
  where: z.string().optional().describe("JSON: a condition on `data`, as in routes."),
  since: z
    .union([durationSchema, z.iso.datetime({ offset: true }).transform((text) => new Date(text))], {
      error: "must be a duration (like 2h) or a time with its zone",
    })
    .optional()
    .describe("Begin with what was received since: so long ago, or then."),
  latest: flag.optional().describe("Begin now, whatever the cursor says."),
  after: seq.optional().describe("Begin after this seq."),
  as: listenerName.optional().describe("Begin where this name's cursor stands; when there is none, now, and it is made."),
});
type ListenQuery = z.infer<typeof listenQuery>;

const cursorBody = z.strictObject({ seq: z.number().int().min(0) });

/** A connection that takes no byte for twice this long is closed; heartbeats alone would take much longer to fill it. */
const longestSilenceMs = 150_000;
/** Bytes buffered for a connection, beside the page being written. */
const bufferedBytes = 64 * 1024;
/** While stopping, for a reader that does not take even the `bye`. */
const byeWithinMs = 500;

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
      // An invalid one is refused: beginning elsewhere would skip events. Browsers send an empty one for none.
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
  answers: { 200: { text: "Where the cursor stands: it never goes back.", schema: cursorSchema } },
} as const;

/** `GET /v1/listen` and the listeners' cursors: docs/listen.md. */
export function addListenRoutes(app: FastifyInstance, port: ListenPort, allow: Allow): void {
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

  addEndpoint(app, allow, listen, async ({ query, headers, request, reply }) => {
    const read = port.open(filterOf(query));
    const start = await startOf(query, headers["last-event-id"], port);
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
    allowLongRequest(request.raw, reply.raw, longestSilenceMs);
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

function filterOf({ source, events, status, tracked, where }: ListenQuery): ListenFilter {
  return { sources: source, events, statuses: status, tracked, ...(where === undefined ? {} : { where: parseJson(where) }) };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new RelayError("bad_request", "where: is not valid JSON", [{ path: "where", message: "is not valid JSON" }]);
  }
}

/** Where a listener begins: after `Last-Event-ID`, else `after`, `since`, `latest`, its cursor, now. */
export async function startOf(query: ListenQuery, lastEventId: string | undefined, port: ListenPort): Promise<Start> {
  const { newest } = await port.ends();
  const known = await resumeAt(query, lastEventId, port);
  if (known === null) return { after: newest, reset: false };
  return known > newest ? { after: newest, reset: true } : { after: known, reset: false };
}

function resumeAt(
  { after, since, latest, as }: ListenQuery,
  lastEventId: string | undefined,
  port: ListenPort,
): MaybePromise<number | null> {
  if (lastEventId) return Number(lastEventId);
  if (after !== undefined) return after;
  if (since !== undefined) return port.seqBefore(typeof since === "number" ? port.now() - since : since.getTime());
  if (latest === true || as === undefined) return null;
  return port.cursor(as);
}
