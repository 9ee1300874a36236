import type { AuditProgress } from "../model/audit.ts";
import type { Given } from "../model/endpoint.ts";
import type { messageBody, registration, runBody } from "../model/endpoints/send.ts";
import type { RequestOf } from "./calls.ts";

export type MessageRegistration = Given<typeof registration>;
/** The body of `POST /v1/messages`, with exactly one of `text` and `template`. */
export type MessageOrder = Given<typeof messageBody>;
export type RunOrder = Given<typeof runBody>;

/** Of all rows of a list: `limit` is the most rows in total. Default: all that match. */
export type FilterOf<Name extends "listEvents" | "listDeliveries" | "listMessages" | "listRuns"> = Omit<RequestOf<Name>, "before">;
export type AuditRange = RequestOf<"audit">;
export type ReplayFilter = Omit<RequestOf<"replay">, "dryRun" | "cursor" | "limit">;
/** `account`: this one only. Default: every account that can be polled. `dueBy`: that of the plan. Default: now. */
export type ReconcileFilter = Pick<RequestOf<"reconcile">, "account" | "dueBy">;

/** Of work that takes several requests. */
export interface StepOptions {
  /** Called after each request with the number done so far. */
  onProgress?: ((done: number) => void) | undefined;
  /** No further request is made once it is aborted; what is done stays done. */
  signal?: AbortSignal | undefined;
}

export interface ReplayStepOptions {
  /** Where to begin: the `cursor` of an earlier step. */
  cursor?: string | null | undefined;
  /** Most deliveries of one request. */
  limit?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface ReplayProgress {
  readonly replayed: number;
  /** Null: all is done. */
  readonly cursor: string | null;
}

export interface AuditOptions {
  /** Called while the audit goes on. */
  onProgress?: ((progress: AuditProgress) => void) | undefined;
  /** Throws its reason once it is aborted. */
  signal?: AbortSignal | undefined;
}

export interface SendOptions {
  /** `details.resend` of the error `outcome_unknown`: sends again although the first attempt may have succeeded. */
  resend?: number | undefined;
  /** Longest wait for a slot under the caps, in milliseconds. Default: the relay's setting. */
  maxWaitMs?: number | undefined;
}

export interface MessageOptions extends SendOptions {
  /** The same key sends once. Default: a new key, returned in the answer, or in `details` of the error. */
  idempotencyKey?: string | undefined;
}
