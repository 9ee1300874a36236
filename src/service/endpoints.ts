import { z } from "zod";
import type { messageBody, runBody } from "../model/endpoints/send.ts";
import { codeText } from "../model/event.ts";

/**
 * Per-minute caps: `requests` is every call, `messages` is `POST /messages`, which counts against
 * both.
 */
export type CallCap = "requests" | "messages";

export const callOperations = ["messages", "runs", "reads"] as const;
export type CallOperation = (typeof callOperations)[number];

export const capOf = (operation: CallOperation): CallCap =>
  operation === "messages" ? "messages" : "requests";

/** All reads are polls. */
export type CallPriority = "send" | "poll";

export interface CallRequest {
  readonly operation: CallOperation;
  readonly signal?: AbortSignal;
}

export type CallOutcome =
  | { readonly type: "answered" }
  /** 429 of a per-minute cap. `cap`: null if the answer does not name it. */
  | {
      readonly type: "rate-limited";
      readonly cap: CallCap | null;
      readonly retryAfterMs: number | null;
      readonly limit: number | null;
    }
  | { readonly type: "quota-used-up"; readonly resource: string | null }
  | { readonly type: "unauthenticated" }
  | { readonly type: "blocked" }
  /** The service counted nothing. */
  | { readonly type: "not-sent" }
  /** The service may have counted the call. */
  | { readonly type: "unknown" };

export interface Permit {
  /** Once, when the call has ended. */
  settle(outcome: CallOutcome): void;
}

/**
 * Calls in flight at once. Never more than connections: undici's queue knows neither deadlines nor
 * priorities.
 */
export const defaultConcurrency = 8;

export interface Admission {
  /**
   * Waits until the call fits under the caps. Rejects with the signal's reason, or at once with a
   * `ServiceError` (`local: true`) while calling would be useless or harmful.
   */
  enter(request: CallRequest): Promise<Permit>;
}

/**
 * The shapes of messaging-service-api.md, all loose: unknown fields pass through. An answer must
 * have only the fields that the relay needs. A field of another type than documented counts as
 * absent.
 */
const text = z.string().min(1);
const answeredId = z.union([text, z.number().transform(String)]);

/** Exactly one of `text` and `template`. Other fields are sent along. */
export type SendBody = Pick<
  z.infer<typeof messageBody>,
  "to" | "phoneNumberId" | "text" | "template"
>;
export type RunBody = Partial<Pick<z.infer<typeof runBody>, "phone" | "name" | "data">>;

/** With a wamid it was sent, even if all else is missing. */
const receiptSchema = z.looseObject({
  id: answeredId.nullable().default(null).catch(null),
  wamid: answeredId,
  status: text.default("pending").catch("pending"),
  conversationId: answeredId.nullable().default(null).catch(null),
});
type Receipt = z.infer<typeof receiptSchema>;

export const messageSchema = z.looseObject({
  wamid: answeredId,
  status: text,
  /** Numbers become text; anything else is null, as in webhooks. */
  errorCode: z.unknown().optional().transform(codeText),
});
export type Message = z.infer<typeof messageSchema>;

/** `GET /me`; fields not shown. */
const accountSchema = z.looseObject({});
export type Account = z.infer<typeof accountSchema>;

const runSchema = z.looseObject({ runId: answeredId });
export type Run = z.infer<typeof runSchema>;

// Knowing that calls are useless matters more than the detail: a field of another type becomes
// null.
const detail = z.string().nullish().catch(null);
const amount = z.number().nullish().catch(null);

export const planCauseSchema = z.looseObject({
  type: detail,
  reason: detail,
  resource: detail,
  plan: detail,
  limit: amount,
  used: amount,
  suggested: detail,
});
export type PlanCause = z.infer<typeof planCauseSchema>;

export interface Endpoint<T> extends Omit<CallRequest, "signal"> {
  /** Method and path as the document writes them; for errors and metrics. */
  readonly name: string;
  readonly method: "GET" | "POST";
  readonly answer: z.ZodType<T>;
}

function endpoint<T>(
  method: "GET" | "POST",
  path: string,
  operation: CallOperation,
  answer: z.ZodType<T>,
): Endpoint<T> {
  return { name: `${method} ${path}`, method, operation, answer };
}

export const endpoints = {
  sendMessage: endpoint<Receipt>("POST", "/messages", "messages", receiptSchema),
  getMessage: endpoint<Message>("GET", "/messages/{id}", "reads", messageSchema),
  me: endpoint<Account>("GET", "/me", "reads", accountSchema),
  startRun: endpoint<Run>("POST", "/automations/{id}/runs", "runs", runSchema),
} as const;

/** Throws a TypeError for text that would change the path. */
export function pathPart(id: string): string {
  if (id === "" || id === "." || id === "..") throw new TypeError("an id is empty or made of dots");
  return encodeURIComponent(id);
}
