import type { MessageRegistration, TrackedLine, TrackSums } from "./answers.ts";
import type { Connection } from "./connection.ts";
import { gather } from "./gather.ts";
import { RelayClientError, type RelayClientErrorCode } from "./relay-client-error.ts";

/** Of one request. Whole answers of this size are read without a thought, also where fetch cannot send while it reads. */
const request = { items: 1_000, length: 1024 * 1024 };

type LastLine = TrackSums & { error?: string; code?: RelayClientErrorCode; stoppedAt?: number };

/**
 * Registers any number of messages, and gives what became of each, in order; returns the sums. Asks for more messages only
 * as the report is taken. Throws {@link RelayClientError} with `line` when it cannot go on.
 */
export async function* trackAll(
  connection: Connection,
  messages: Iterable<MessageRegistration> | AsyncIterable<MessageRegistration>,
): AsyncGenerator<TrackedLine, TrackSums> {
  const sums: TrackSums = { lines: 0, created: 0, known: 0, conflict: 0, invalid: 0 };
  for await (const group of gather(asLines(messages), request)) {
    const before = sums.lines;
    const report = await connection.lines<TrackedLine | LastLine>("/v1/messages/track", group.join("")).catch((error) => {
      throw atLine(error, before + 1);
    });
    const last = report.pop();
    for (const line of report as TrackedLine[]) {
      sums.lines += 1;
      sums[line.result] += 1;
      yield { ...line, line: before + line.line };
    }
    if (last === undefined || !("lines" in last)) {
      throw new RelayClientError("the relay's report was cut off", { status: 200, code: "no_answer", line: before + 1 });
    }
    if (last.error !== undefined) {
      const { error, code = "bad_answer", stoppedAt = 1 } = last;
      throw new RelayClientError(error, { status: 200, code, line: before + stoppedAt });
    }
  }
  return sums;
}

async function* asLines(messages: Iterable<MessageRegistration> | AsyncIterable<MessageRegistration>): AsyncGenerator<string, void> {
  for await (const message of messages) yield `${JSON.stringify(message)}\n`;
}

function atLine(error: unknown, line: number): unknown {
  if (!(error instanceof RelayClientError)) return error;
  const { message, status, code, details, cause } = error;
  return new RelayClientError(message, { status, code, details, cause, line });
}
