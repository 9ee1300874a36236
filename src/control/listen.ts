import { Readable } from "node:stream";
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { cursorSchema } from "../model/answers.ts";
import { RelayError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { durationSchema } from "../model/units.ts";
import { type Allow, addEndpoint } from "./endpoint.ts";
import { createEventTexts, type ListenFilter, type ListenPort, lastEventId, listenStream, type Start } from "./listen-stream.ts";

const seq = z.coerce.number().int().min(0);
const flag = z.enum(["true", "false"]).transform((text) => text === "true");
const words = z
  .union([z.string(), z.array(z.string())])
  .transform((given) => (Array.isArray(given) ? given : [given]).flatMap((text) => text.split(",")).map((text) => text.trim()))
  .refine((list) => list.every((word) => word !== ""), "has an empty word")
  .refine((list) => list.length <= 100, "has more than 100 words");

const listenerName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "is not a name (letters, digits, . _ -, at most 64)");

const listenQuery = z.strictObject({
  source: words.optional().describe("Only from these sources, separated by commas."),
  events: words.optional().describe("Only these event kinds, with `*` as in routes, separated by commas."),
  status: words.optional().describe("Only with these statuses, separated by commas."),
  tracked: flag.optional().describe("`true`: only messages and runs that are registered now. `false`: only others."),
  where: z.string().optional().describe("JSON: a condition on `data`, as in routes."),
  since: z
    .union([durationSchema, z.iso.datetime({ offset: true }).transform((text) => new Date(text))], {
      error: "must be a duration (like 2h) or a time with its zone",
    })
    .optional()
    .describe("Start with the events received since this time, or in this duration before now."),
  latest: flag.optional().describe("Start now, whatever the cursor is."),
  after: seq.optional().describe("Start after this seq."),
  as: listenerName.optional().describe("Start at the cursor of this name. Without one, start now and create it."),
});
type ListenQuery = z.infer<typeof listenQuery>;

const cursorBody = z.strictObject({ seq: z.number().int().min(0).describe("Everything up to this seq is done.") });

/** Bytes buffered for a connection, beside the page being written. */
const bufferedBytes = 64 * 1024;
/** While stopping, for a reader that does not take even the `bye`. */
const byeWithinMs = 500;

const listen = {
  method: "GET",
  path: "/v1/listen",
  name: "listen",
  scope: "listen",
  summary: "Events with their bodies as they are stored, until either side ends the stream",
  description: `The first of these decides where the stream starts: \`Last-Event-ID\`, \`after\`, \`since\`, \`latest\`, \`as\`. Without any, it starts now. Answers are never masked. At most 100 connections.

| \`event:\` | \`id:\` | \`data:\`, as JSON |
|---|---|---|
| \`hello\` | where it starts | \`{relay, after, newest, reset, keptFrom, retentionMs}\`; \`reset\`: you know of events that this store never had |
| \`event\` | its seq | \`{seq, id, event, source, account, origin, receivedAt, disposition, status, subject, tracked, headers, body}\`; \`body\` is base64 |
| \`gap\` | | \`{from, to, count}\`: retention deleted so many events between these seqs, matching or not |
| \`at\` | a seq | \`{seq, newest}\`: no other event up to it matches |
| \`bye\` | | \`{reason}\`: the relay stops, the token was removed, or the store lost events that were sent here |
| a comment | | every 15 s while nothing else comes |`,
  query: listenQuery,
  headers: z.object({ "last-event-id": lastEventId }),
  answers: { 200: { text: "Server-sent events: `hello`, `event`, `gap`, `at`, `bye`.", types: ["text/event-stream"] } },
  errors: ["too_many_listeners", "shutting_down"],
  head: false,
} as const;

const cursor = {
  method: "POST",
  path: "/v1/listen/cursors/:name",
  name: "moveCursor",
  scope: "listen",
  summary: "Moves the cursor of a name",
  params: z.strictObject({ name: listenerName.describe("The listener's name.") }),
  body: cursorBody,
  answers: { 200: { text: "The cursor, which never goes back.", schema: cursorSchema } },
} as const;

/** `GET /v1/listen` and the listeners' cursors: docs/how-to/develop-with-production-events.md. */
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

  addEndpoint(app, allow, listen, async ({ query, headers, request, reply, isAllowed }) => {
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
