import { setImmediate as turn } from "node:timers/promises";
import { type ErrorCode, RelayError } from "../event/errors.ts";
import { createLineSplitter, type Line } from "../event/split-lines.ts";
import type { Chunk } from "./next-chunk.ts";
import type { Writing } from "./port.ts";
import { type ReadLine, readRegistration } from "./track-body.ts";

/** Longest line taken, in bytes. */
export const maxLineBytes = 64 * 1024;
/** Lines of one transaction: some milliseconds, so that receiving is not held up for longer. */
const batchLines = 200;

export interface TrackStreamParts {
  readonly next: () => Promise<Chunk>;
  readonly registerEach: Writing["registerEach"];
  readonly stop: AbortSignal;
  /** A fault nobody foresaw; the report ends with `internal`. */
  readonly failed: (error: unknown) => void;
}

const stops = {
  stalled: ["request_timeout", "no line came for too long"],
  stopped: ["shutting_down", "the relay is stopping"],
} as const satisfies Record<string, readonly [ErrorCode, string]>;

const stopped = (why: keyof typeof stops): RelayError => {
  const [code, message] = stops[why];
  return new RelayError(code, message);
};

/**
 * Registers the messages of an NDJSON stream and gives its report, some lines of NDJSON at a time: each once it is on
 * the disk. Nothing is read ahead of who takes the report, so memory does not depend on lengths.
 * Throws what stopped it before the first line of the report; later a last line says so.
 */
export async function* registerStream({ next, registerEach, stop, failed }: TrackStreamParts): AsyncGenerator<string, void> {
  const splitter = createLineSplitter(maxLineBytes);
  const sums = { lines: 0, created: 0, known: 0, conflict: 0, invalid: 0 };
  let reached = 1;

  async function register(lines: readonly Line[]): Promise<string> {
    const read = lines.map((line): ReadLine => ("text" in line ? readRegistration(line.text) : { wamid: null, error: line.fault }));
    const given = read.flatMap((each) => ("registration" in each ? [each.registration] : []));
    const outcomes = given.length === 0 ? [] : await registerEach(given);
    // Whoever sends nothing but faults does not have the whole machine to itself.
    if (given.length === 0) await turn();
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
      report += `${JSON.stringify({ line: number, wamid: each.wamid, result, ...more })}\n`;
      reached = number + 1;
    }
    return report;
  }

  for (;;) {
    const chunk = await next();
    if (chunk === "gone") return;
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
  return { error: "a fault of the relay; its log says more", code: "internal" };
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
