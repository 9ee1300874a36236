import { Readable } from "node:stream";
import { setImmediate as yieldToLoop } from "node:timers/promises";
import type { FastifyInstance } from "fastify";
import { type TrackedLine, type TrackSums, trackedLineSchema } from "../model/answers/subjects.ts";
import { type Registration, registration } from "../model/endpoints/send.ts";
import { RelayError } from "../model/errors.ts";
import { lineLimits, parseWithin } from "../model/json.ts";
import { maskAnswer } from "../model/view.ts";
import type { Allow } from "./auth.ts";
import { addEndpoints, type Handlers, parse } from "./endpoint.ts";
import { isBlank, type Line, linesIn } from "./split-lines.ts";

export interface TrackPort {
  /** All or none. Throws `bad_request`, or `conflict` when one contradicts what is stored. */
  register(
    registrations: readonly Registration[],
    accounts?: readonly string[],
  ): Promise<{ created: number; known: number }>;
  /** Each one separately; returns their outcomes in order. */
  registerEach(
    registrations: readonly Registration[],
    accounts?: readonly string[],
  ): Promise<RegistrationOutcome[]>;
}

export type RegistrationOutcome =
  | { readonly result: "created" | "known" }
  | { readonly result: "conflict" | "invalid"; readonly error: string; readonly details?: unknown };

type ReadLine =
  | { readonly registration: Registration; readonly wamid: string }
  | { readonly wamid: string | null; readonly error: string; readonly details?: unknown };

export function readRegistration(line: string): ReadLine {
  const read = parseWithin(line, lineLimits);
  if ("fault" in read) return { wamid: null, error: read.fault };
  const { value } = read;
  try {
    const parsed = parse(registration, value);
    return { registration: parsed, wamid: parsed.wamid };
  } catch (error) {
    if (!(error instanceof RelayError)) throw error;
    const { wamid } = (value ?? {}) as { wamid?: unknown };
    return {
      wamid: typeof wamid === "string" ? wamid : null,
      error: error.message,
      details: error.details,
    };
  }
}

const ndjson = "application/x-ndjson";

export function addTrackRoute(app: FastifyInstance, port: TrackPort, allow: Allow): void {
  let isStopping = false;
  app.addHook("preClose", async () => {
    isStopping = true;
  });

  const trackMessages: Handlers["trackMessages"] = async (
    { body, accounts },
    { request, reply },
  ) => {
    if (!(body instanceof Uint8Array)) return port.register(body, accounts);
    const report = registerLines(Buffer.from(body.buffer, body.byteOffset, body.byteLength), {
      registerEach: (registrations) => port.registerEach(registrations, accounts),
      // A conflict quotes what is stored.
      shown: (line) => (request.isMasked ? maskAnswer(trackedLineSchema, line) : line),
      isStopping: () => isStopping,
      faultOf: (error) => app.faultOf(error, request),
    });
    // An error before the first registration is answered with its own status.
    const { value: first } = await report.next();
    const lines = Readable.from(report, { objectMode: false, highWaterMark: 64 * 1024 });
    lines.unshift(first);
    return reply.type(ndjson).send(lines);
  };
  // In a scope of its own: other paths refuse the content type.
  app.register(async (scope) => {
    scope.addContentTypeParser(ndjson, { parseAs: "buffer" }, (_request, body, done) =>
      done(null, body),
    );
    addEndpoints(scope, allow, { trackMessages });
  });
}

/** Lines in one transaction: a few milliseconds, so that webhooks do not wait for longer. */
const batchLines = 200;

interface RegisterLinesParts {
  readonly registerEach: (registrations: readonly Registration[]) => Promise<RegistrationOutcome[]>;
  readonly shown: (line: TrackedLine) => TrackedLine;
  readonly isStopping: () => boolean;
  readonly faultOf: (error: unknown) => RelayError;
}

/**
 * Registers the messages of an NDJSON body and yields the report as NDJSON, each line once its
 * registration is stored. Continues only as the report is consumed: of short lines, it is a hundred
 * times as long as the body. Throws an error that occurs before the first line of the report; a
 * later one becomes its last line.
 */
export async function* registerLines(
  body: Uint8Array,
  { registerEach, shown, isStopping, faultOf }: RegisterLinesParts,
): AsyncGenerator<string, void> {
  const sums: TrackSums = { lines: 0, created: 0, known: 0, conflict: 0, invalid: 0 };

  async function register(lines: readonly Line[]): Promise<string> {
    const read = lines.map(
      (each): ReadLine =>
        "text" in each ? readRegistration(each.text) : { wamid: null, error: each.fault },
    );
    const given = read.flatMap((each) => ("registration" in each ? [each.registration] : []));
    const outcomes = given.length === 0 ? [] : await registerEach(given);
    // Many empty or faulty lines must not block the event loop.
    if (given.length === 0) await yieldToLoop();
    const report = lines.map(({ line }, index) => {
      const { wamid, ...each } = read[index] as ReadLine;
      const outcome =
        "registration" in each
          ? (outcomes.shift() as RegistrationOutcome)
          : { result: "invalid" as const, ...each };
      sums.lines += 1;
      sums[outcome.result] += 1;
      return `${JSON.stringify(shown({ line, wamid, ...outcome }))}\n`;
    });
    return report.join("");
  }

  for (const batch of batchesOf(linesIn(body))) {
    const lines = batch.filter((line) => !isBlank(line));
    let report: string;
    try {
      if (isStopping()) throw new RelayError("shutting_down", "the relay is stopping");
      report = await register(lines);
    } catch (error) {
      if (sums.lines === 0) throw error;
      yield `${JSON.stringify({ ...sums, stoppedAt: batch[0]?.line, ...faultOf(error).toBody() })}\n`;
      return;
    }
    if (report !== "") yield report;
  }
  yield `${JSON.stringify(sums)}\n`;
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
