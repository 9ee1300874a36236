import type { ErrorCode } from "../event/errors.ts";

/** `no_answer`: none came, or not a whole one. `bad_answer`: what answered is no relay, or one of another version. */
export type RelayClientErrorCode = ErrorCode | "no_answer" | "bad_answer";

export interface RelayClientErrorParts {
  readonly status: number;
  readonly code: RelayClientErrorCode;
  readonly details?: unknown;
  readonly line?: number;
  readonly cause?: unknown;
}

/** The relay refused, or could not be asked. `message` is for people and holds no token. */
export class RelayClientError extends Error {
  override readonly name = "RelayClientError";
  /** Of the answer; 0 when there was none. */
  readonly status: number;
  /** As in docs/errors.md, or one of the client's own. */
  readonly code: RelayClientErrorCode;
  /** What the relay adds, such as `{stored, given}` by field in a conflict. */
  readonly details: unknown;
  /** In `trackAll`: number (from 1) of the first message that may not be registered; go on from there. */
  readonly line: number | null;

  constructor(message: string, { status, code, details, line, cause }: RelayClientErrorParts) {
    super(message, cause === undefined ? {} : { cause });
    this.status = status;
    this.code = code;
    this.details = details;
    this.line = line ?? null;
  }
}
