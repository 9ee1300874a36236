import type { z } from "zod";
import type {
  StartedRun,
  sentMessageSchema,
  TrackEnd,
  TrackedLine,
  TrackSums,
} from "../model/answers/subjects.ts";
import type { Given } from "../model/endpoint.ts";
import type { messageBody, registration, runBody } from "../model/endpoints/send.ts";
import { type Connection, errorWith, queryOf, RelayClientError } from "./connection.ts";

export type MessageRegistration = Given<typeof registration>;
/** The body of `POST /v1/messages`, with exactly one of `text` and `template`. */
export type MessageOrder = Given<typeof messageBody> &
  ({ text: string; template?: undefined } | { template: object; text?: undefined });
export type RunOrder = Given<typeof runBody>;

export interface SendOptions {
  /**
   * `details.resend` of the error `outcome_unknown`: sends again although the first attempt may
   * have succeeded.
   */
  resend?: number | undefined;
  /** Longest wait for a slot under the caps, in milliseconds. Default: the relay's setting. */
  maxWaitMs?: number | undefined;
}

export interface MessageOptions extends SendOptions {
  /**
   * The same key sends once. Default: a new key, returned in the answer, or in `details` of the
   * error.
   */
  idempotencyKey?: string | undefined;
}

export interface SentMessage extends z.infer<typeof sentMessageSchema> {
  /** True: it was sent before under the same key, and this is the first answer. */
  replayed: boolean;
}

export async function sendMessage(
  connection: Connection,
  order: MessageOrder,
  options: MessageOptions,
): Promise<SentMessage> {
  const { idempotencyKey = globalThis.crypto.randomUUID(), ...rest } = options;
  if (!/^[\x20-\x7e]{1,256}$/.test(idempotencyKey))
    throw new TypeError("idempotencyKey must be 1 to 256 characters of plain ASCII");
  try {
    const path = `/v1/messages${sendQuery(rest)}`;
    const { body, headers } = await connection.onceFree(() =>
      connection.exchange<Omit<SentMessage, "replayed">>("POST", path, order, {
        "idempotency-key": idempotencyKey,
      }),
    );
    return { ...body, replayed: headers.get("idempotent-replayed") === "true" };
  } catch (error) {
    // A caller that lost the answer must be able to repeat the request without sending twice.
    if (!(error instanceof RelayClientError) || error.details !== undefined) throw error;
    throw errorWith(error, { details: { idempotencyKey } });
  }
}

export function startRun(
  connection: Connection,
  automation: string,
  order: RunOrder,
  options: SendOptions,
): Promise<StartedRun> {
  const path = `/v1/automations/${encodeURIComponent(automation)}/runs${sendQuery(options)}`;
  return connection.onceFree(() => connection.json("POST", path, order));
}

function sendQuery({ resend, maxWaitMs }: SendOptions): string {
  return queryOf({
    resend,
    maxWait: maxWaitMs === undefined ? undefined : `${Math.round(maxWaitMs)}ms`,
  });
}

/** Of `trackAll`; text is JSON. */
export type Messages =
  | Iterable<MessageRegistration | string>
  | AsyncIterable<MessageRegistration | string>;

/**
 * Limits of one request, so that its answer can be read whole: not every fetch can send while it
 * reads.
 */
const requestLimits = { items: 1_000, length: 1024 * 1024 };

/**
 * Registers any number of messages and yields the result of each, in order; returns the sums. Takes
 * more messages only as the report is consumed. Throws {@link RelayClientError} with `line` when it
 * cannot continue.
 */
export async function* trackAll(
  connection: Connection,
  messages: Messages,
): AsyncGenerator<TrackedLine, TrackSums> {
  const sums: TrackSums = { lines: 0, created: 0, known: 0, conflict: 0, invalid: 0 };
  for await (const group of gather(asLines(messages))) {
    const before = sums.lines;
    const report = await connection
      .lines<TrackedLine | TrackEnd>("/v1/messages/track", group.join(""))
      .catch((error) => {
        throw error instanceof RelayClientError ? errorWith(error, { line: before + 1 }) : error;
      });
    const last = report.pop();
    for (const line of report as TrackedLine[]) {
      sums.lines += 1;
      sums[line.result] += 1;
      yield { ...line, line: before + line.line };
    }
    if (last === undefined || !("lines" in last)) {
      throw new RelayClientError("the relay's report was cut off", {
        status: 200,
        code: "no_answer",
        line: before + 1,
      });
    }
    if (last.error !== undefined) {
      const { error, code = "bad_answer", stoppedAt = 1 } = last;
      throw new RelayClientError(error, { status: 200, code, line: before + stoppedAt });
    }
  }
  return sums;
}

async function* asLines(messages: Messages): AsyncGenerator<string, void> {
  for await (const message of messages)
    yield `${typeof message === "string" ? message : JSON.stringify(message)}\n`;
}

/**
 * How long an item waits for others to join its group, in milliseconds, when the source is slow.
 */
const lingerMs = 20;

/**
 * Groups lines, up to the limits or to those available by now. Takes no more of them while a group
 * is processed.
 */
async function* gather(iterator: AsyncGenerator<string, void>): AsyncGenerator<string[], void> {
  let pending: Promise<IteratorResult<string>> | null = null;
  try {
    for (;;) {
      const group: string[] = [];
      let size = 0;
      let late: Promise<null> | null = null;
      while (group.length < requestLimits.items && size < requestLimits.length) {
        pending ??= iterator.next();
        const got: IteratorResult<string> | null = await (late === null
          ? pending
          : Promise.race([pending, late]));
        if (got === null) break;
        pending = null;
        if (got.done === true) {
          if (group.length > 0) yield group;
          return;
        }
        group.push(got.value);
        size += got.value.length;
        late ??= new Promise((resolve) => void setTimeout(resolve, lingerMs, null));
      }
      yield group;
    }
  } finally {
    // Not awaited: a source that is waiting for something else would block the caller.
    pending?.catch(() => {});
    iterator.return().catch(() => {});
  }
}
