import { z } from "zod";
import { eventSchema } from "../answers/events.ts";
import { cursorSchema } from "../answers/relay.ts";
import { flag, liveQuery } from "../queries.ts";
import { durationSchema } from "../units.ts";
import type { View } from "../view.ts";

const seq = z.coerce.number<number>().int().min(0);
const words = z
  .union([z.string(), z.array(z.string())])
  .transform((given) =>
    (Array.isArray(given) ? given : [given])
      .flatMap((text) => text.split(","))
      .map((text) => text.trim()),
  )
  .refine((list) => list.every((word) => word !== ""), "has an empty word")
  .refine((list) => list.length <= 100, "has more than 100 words");

const listenerName = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "is not a name (letters, digits, . _ -, at most 64)");

const listenQuery = z.strictObject({
  source: words.optional().describe("Only from these sources, separated by commas."),
  events: words
    .optional()
    .describe("Only these event kinds, with `*` as in routes, separated by commas."),
  status: words.optional().describe("Only with these statuses, separated by commas."),
  tracked: flag
    .optional()
    .describe("`true`: only messages and runs that are registered now. `false`: only others."),
  where: z.string().optional().describe("JSON: a condition on `data`, as in routes."),
  since: z
    .union([durationSchema, z.iso.datetime({ offset: true }).transform((text) => new Date(text))], {
      error: "must be a duration (like 2h) or a time with its zone",
    })
    .optional()
    .describe("Start with the events received since this time, or in this duration before now."),
  latest: flag.optional().describe("Start now, whatever the cursor is."),
  after: seq.optional().describe("Start after this seq."),
  as: listenerName
    .optional()
    .describe("Start at the cursor of this name. Without one, start now and create it."),
});
export type ListenQuery = z.infer<typeof listenQuery>;

const cursorBody = z.strictObject({
  seq: z.number().int().min(0).describe("Everything up to this seq is done."),
});

/**
 * Browsers send an empty one for none. An invalid one is refused: beginning elsewhere would skip
 * events.
 */
const lastEventId = z
  .string()
  .regex(/^(?:\d{1,15})?$/, "is not the id of an event of this stream (a whole number)")
  .optional()
  .describe("Id of the last message received, to continue after it.");

/** An event as `GET /v1/listen` sends it (docs/how-to/develop-with-production-events.md). */
export const listenedEventSchema = eventSchema
  .pick({
    seq: true,
    source: true,
    account: true,
    origin: true,
    receivedAt: true,
    disposition: true,
    status: true,
    subject: true,
  })
  .extend({
    id: z.string().describe("The envelope's id."),
    event: z.string().describe("The event kind."),
    tracked: z.boolean().describe("Whether its message or run is registered now."),
    headers: z.record(z.string(), z.string()).describe("The stored request headers."),
    // Text in JSON would lose what is not UTF-8.
    body: z.base64().describe("The received bytes, in base64."),
  });

export type ListenRow = Omit<View<typeof listenedEventSchema>, "headers" | "body">;

export interface ListenedContent {
  /** How `body` is read. Null or absent: `standard`. */
  readonly format?: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

export interface ListenedEvent extends ListenRow {
  /** Valid only while the page is in use. */
  content(): ListenedContent;
}

export interface ListenPage {
  readonly events: readonly ListenedEvent[];
  readonly through: number;
  /** Purged events within the page: their number, and the first and last seq. */
  readonly missing: { readonly from: number; readonly to: number; readonly count: number } | null;
  readonly atEnd: boolean;
}

/** Streams of server-sent events: docs/how-to/develop-with-production-events.md. */
export const streaming = {
  listen: {
    scope: "listen",
    accounts: "narrowed",
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
    answers: {
      200: {
        text: "Server-sent events: `hello`, `event`, `gap`, `at`, `bye`.",
        types: ["text/event-stream"],
      },
    },
    errors: ["too_many_listeners", "shutting_down"],
    head: false,
  },
  moveCursor: {
    scope: "listen",
    accounts: "whole",
    summary: "Moves the cursor of a name",
    params: z.strictObject({ name: listenerName.describe("The listener's name.") }),
    body: cursorBody,
    answers: { 200: { schema: cursorSchema } },
  },
  live: {
    scope: "read",
    accounts: "narrowed",
    summary:
      "The overview whenever it changes, and events as they are stored, until either side ends it",
    description: `Begins now, or after \`Last-Event-ID\`: no event is missing, and none comes twice. At most 100 connections.

| \`event:\` | \`id:\` | \`data:\`, as JSON |
|---|---|---|
| \`overview\` | with \`tail\`: the position | the answer of \`GET /v1/overview\`, first and whenever it changes; at most one a second, at least one in 15 s |
| \`events\` | the position, a seq | \`{data, skipped}\`: events stored since, oldest first, as in \`GET /v1/events\`; at most 50, four messages a second |
| | | \`skipped\` counts events left out when the client is 500 events behind, with a filter 5,000 |
| \`bye\` | | \`{reason}\`: the relay stops, or the token or session has ended |`,
    query: liveQuery,
    headers: z.object({ "last-event-id": lastEventId }),
    answers: {
      200: {
        text: "Server-sent events: `overview`, `events`, `bye`.",
        types: ["text/event-stream"],
      },
    },
    errors: ["too_many_listeners", "shutting_down"],
    head: false,
  },
} as const;
