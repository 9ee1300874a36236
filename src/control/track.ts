import type { Server } from "node:http";
import { Readable } from "node:stream";
import { setImmediate as yieldToLoop } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { type TrackedLine, type TrackSums, trackEndSchema, trackedLineSchema, trackedSchema } from "../model/answers.ts";
import { type ErrorCode, RelayError } from "../model/errors.ts";
import { lineLimits, parseWithin } from "../model/json.ts";
import { metadataSchema } from "../model/message.ts";
import { type Allow, addEndpoint, badRequest, idText, time } from "./endpoint.ts";
import { allowLongRequest, type Chunk, nextChunk } from "./long-request.ts";
import { createLineSplitter, type Line } from "./split-lines.ts";

export interface TrackPort {
  /** All or none. Throws `bad_request`, or `conflict` when one contradicts what is stored. */
  register(registrations: readonly Registration[]): Promise<{ created: number; known: number }>;
  /** Each one separately; returns their outcomes in order. */
  registerEach(registrations: readonly Registration[]): Promise<RegistrationOutcome[]>;
}

export type RegistrationOutcome =
  | { readonly result: "created" | "known" }
  | { readonly result: "conflict" | "invalid"; readonly error: string; readonly details?: unknown };

const registration = z.strictObject({
  account: z.string().min(1).optional().describe("Its account. Required when the settings have several."),
  wamid: idText.describe("Its wamid."),
  id: idText.optional().describe("The service's message id."),
  reference: idText.optional().describe("Your own reference, such as an order number."),
  conversationId: idText.optional().describe("The service's conversation id."),
  metadata: metadataSchema.optional().describe("Your own data, for routes and `payload: enriched`."),
  sentAt: time.optional().describe("When it was sent. Default: the time of registration."),
});
export type Registration = z.infer<typeof registration>;

/** One message, or up to 1,000. */
export const trackBody = z.union([registration.transform((one) => [one]), z.array(registration).min(1).max(1000)]);

type ReadLine =
  | { readonly registration: Registration; readonly wamid: string }
  | { readonly wamid: string | null; readonly error: string; readonly details?: unknown };

/** One line of NDJSON. `wamid` is also set for a faulty line that has one. */
export function readRegistration(line: string): ReadLine {
  const read = parseWithin(line, lineLimits);
  if ("fault" in read) return { wamid: null, error: read.fault };
  const { value } = read;
  const parsed = registration.safeParse(value);
  if (parsed.success) return { registration: parsed.data, wamid: parsed.data.wamid };
  const { wamid } = (value ?? {}) as { wamid?: unknown };
  const { message, details } = badRequest(parsed.error, value);
  return { wamid: typeof wamid === "string" ? wamid : null, error: message, details };
}

const ndjson = "application/x-ndjson";
/** Longest wait for a sender that continues while the relay stops, in milliseconds. */
const stoppingSilenceMs = 1_000;

const track = {
  method: "POST",
  path: "/v1/messages/track",
  name: "trackMessages",
  scope: "track",
  summary: "Registers sent messages, so that the relay tracks them",
  description: `Registering again is safe: new facts are added, and equal ones change nothing. The earliest \`sentAt\` counts.

| body | the relay |
|---|---|
| JSON: one registration, or a list of up to 1,000 | registers all or none. 409 \`conflict\` when one contradicts what is stored: \`details\` has \`stored\` and \`given\` by field, and \`index\` in a list |
| NDJSON (\`application/x-ndjson\`): one registration a line | registers each line separately, and answers a line for each in order, then a line with the sums |

| NDJSON | limit |
|---|---|
| a line | 64 KiB, 2,000 values, 32 levels |
| \`metadata\` of a message | 64 KiB as JSON, 1,000 keys and entries, 16 levels |
| silence of the sender | \`server.requestTimeout\` |
| reading the answer | while you send: unread answers stop the relay after some ten thousand lines |
| a failure later on | the last line has \`error\`, \`code\` and \`stoppedAt\`: continue at that line. Do so after a cut answer too |`,
  body: trackBody,
  lines: "One registration per line; any number of lines.",
  answers: {
    200: {
      text: "The number of messages registered now and before; for NDJSON, the result of each line.",
      schema: trackedSchema,
      types: ["application/json", ndjson],
      line: z.union([trackedLineSchema, trackEndSchema]),
    },
  },
  errors: ["conflict", "shutting_down"],
} as const;

/** `POST /v1/messages/track`: JSON, all or none; or NDJSON of any length, each line separately. */
export function addTrackRoute(app: FastifyInstance, port: TrackPort, allow: Allow): void {
  const stopping = new AbortController();
  app.addHook("preClose", async () => stopping.abort());

  // In a scope of its own: other paths refuse the content type.
  app.register(async (scope) => {
    scope.addContentTypeParser(ndjson, (_request, body, done) => done(null, body));
    addEndpoint(scope, allow, track, async ({ body, request, reply }) =>
      body instanceof Readable ? answerStream(request, body, reply) : port.register(body),
    );
  });

  async function answerStream(request: FastifyRequest, body: Readable, reply: FastifyReply): Promise<FastifyReply> {
    if (request.headers["content-encoding"] !== undefined) throw new RelayError("bad_request", "compressed lines are not accepted");
    // A server that does not listen, as in commands, has no timeout set.
    const longestSilenceMs = (app.server as Server).requestTimeout || 10_000;
    allowLongRequest(request.raw, reply.raw, longestSilenceMs);

    const report = registerStream({
      next: () => nextChunk(body, longestSilenceMs, stopping.signal),
      registerEach: port.registerEach,
      stop: stopping.signal,
      failed: (error) => app.reportFault(error, request.id),
    });
    // An error before the first registration is answered with its own status.
    const first = await report.next();
    return reply.type(ndjson).send(Readable.from(allOf(first), { objectMode: false, highWaterMark: 64 * 1024 }));

    async function* allOf(begun: IteratorResult<string, void>): AsyncGenerator<string> {
      if (begun.done !== true) yield begun.value;
      yield* report;
      // Some clients report a broken connection when the answer ends before their request does.
      await dropRest(body, stopping.signal.aborted ? stoppingSilenceMs : longestSilenceMs);
    }
  }
}

/** Reads and drops the rest of a body, for at most `withinMs`. */
async function dropRest(body: Readable, withinMs: number): Promise<void> {
  const deadline = AbortSignal.timeout(withinMs);
  for (;;) {
    const chunk = await nextChunk(body, withinMs, deadline);
    if (chunk === null || typeof chunk === "string") return;
  }
}

/** In bytes. */
const maxLineBytes = 64 * 1024;
/** Lines in one transaction: a few milliseconds, so that webhooks do not wait for longer. */
const batchLines = 200;

interface TrackStreamParts {
  readonly next: () => Promise<Chunk>;
  readonly registerEach: TrackPort["registerEach"];
  readonly stop: AbortSignal;
  /** Called with an unexpected error; the report then ends with `internal`. */
  readonly failed: (error: unknown) => void;
}

const stops = {
  stalled: ["request_timeout", "no line arrived in time"],
  stopped: ["shutting_down", "the relay is stopping"],
} as const satisfies Record<string, readonly [ErrorCode, string]>;

const stopped = (why: keyof typeof stops): RelayError => {
  const [code, message] = stops[why];
  return new RelayError(code, message);
};

/**
 * Registers the messages of an NDJSON stream and yields the report as NDJSON, each line once its registration is stored.
 * Reads only as the report is consumed, so memory does not depend on the stream's length.
 * Throws an error that occurs before the first line of the report; a later one becomes its last line.
 */
export async function* registerStream({ next, registerEach, stop, failed }: TrackStreamParts): AsyncGenerator<string, void> {
  const splitter = createLineSplitter(maxLineBytes);
  const sums: TrackSums = { lines: 0, created: 0, known: 0, conflict: 0, invalid: 0 };
  let reached = 1;

  async function register(lines: readonly Line[]): Promise<string> {
    const read = lines.map((line): ReadLine => ("text" in line ? readRegistration(line.text) : { wamid: null, error: line.fault }));
    const given = read.flatMap((each) => ("registration" in each ? [each.registration] : []));
    const outcomes = given.length === 0 ? [] : await registerEach(given);
    // A stream of faulty lines only must not block the event loop.
    if (given.length === 0) await yieldToLoop();
    let at = 0;
    let report = "";
    for (const [index, { number }] of lines.entries()) {
      const each = read[index] as ReadLine;
      const { result, ...more } =
        "registration" in each
          ? (outcomes[at++] as (typeof outcomes)[number])
          : { result: "invalid" as const, error: each.error, ...(each.details === undefined ? {} : { details: each.details }) };
      sums.lines += 1;
      sums[result] += 1;
      report += `${JSON.stringify({ line: number, wamid: each.wamid, result, ...more } satisfies TrackedLine)}\n`;
      reached = number + 1;
    }
    return report;
  }

  for (;;) {
    const chunk = await next();
    if (chunk === "disconnected") return;
    if (chunk === "stalled" || chunk === "stopped") {
      yield stoppedLine(stopped(chunk));
      return;
    }
    for (const lines of batchesOf(chunk === null ? splitter.end() : splitter.push(chunk))) {
      let report: string;
      try {
        if (stop.aborted) throw stopped("stopped");
        report = await register(lines);
      } catch (error) {
        yield stoppedLine(error);
        return;
      }
      yield report;
    }
    if (chunk === null) {
      yield `${JSON.stringify(sums)}\n`;
      return;
    }
  }

  function stoppedLine(error: unknown): string {
    if (sums.lines === 0) throw error;
    return `${JSON.stringify({ ...sums, stoppedAt: reached, ...errorBody(error, failed) })}\n`;
  }
}

function errorBody(error: unknown, failed: (error: unknown) => void): { error: string; code: ErrorCode } {
  if (error instanceof RelayError) return { error: error.message, code: error.code };
  if (error instanceof Error && error.name === "StoreUnavailable") return { error: error.message, code: "store_unavailable" };
  failed(error);
  return { error: "internal error; see the relay's log", code: "internal" };
}

function* batchesOf(lines: Iterable<Line>): Generator<Line[]> {
  let batch: Line[] = [];
  for (const line of lines) {
    batch.push(line);
    if (batch.length < batchLines) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}
