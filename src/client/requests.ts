import type { AuditProgress } from "../model/audit.ts";
import type { DeliveryState, Disposition } from "../model/states.ts";

/** A time in a request; text needs a time zone. */
export type Time = Date | string;

export interface MessageRegistration {
  /** Needed when the settings have several. */
  account?: string | undefined;
  wamid: string;
  /** The service's message id. */
  id?: string | undefined;
  /** Your own reference, such as an order number. */
  reference?: string | undefined;
  conversationId?: string | undefined;
  /** For routes, and passed on with `payload: enriched`. */
  metadata?: Readonly<Record<string, unknown>> | undefined;
  /** When it was sent; text needs a time zone. Default: the time of registration. */
  sentAt?: Time | undefined;
}

/** Of a request of one page of a list. */
export interface PageOf<Cursor> {
  /** `next` of the page before. */
  before?: Cursor | undefined;
  /** Most rows of this page. Default: 50; at most 1,000. */
  limit?: number | undefined;
}

/** Of a request whose answer holds ids of messages and people. */
export interface Reveal {
  /** For a console session: unmasked, which needs the scope `pii` and is logged. A token with `pii` always reads unmasked. */
  reveal?: boolean | undefined;
}

export interface EventFilter extends Reveal {
  event?: string | undefined;
  /** Event id, seq, masked id, wamid, reference, service id, or at least the last 4 digits of the phone. */
  q?: string | undefined;
  source?: string | undefined;
  account?: string | undefined;
  status?: string | undefined;
  errorCode?: string | undefined;
  subject?: string | undefined;
  disposition?: Disposition | undefined;
  /** With Redis, if more than 50,000 events are unplanned, only the newest of those are searched. */
  wamid?: string | undefined;
  /** Received from this time on. */
  from?: Time | undefined;
  /** Received before this time. */
  to?: Time | undefined;
  /** Most events in total. Default: all that match. */
  limit?: number | undefined;
}

export interface DeliveryFilter extends Reveal {
  route?: string | undefined;
  state?: DeliveryState | undefined;
  /** Of the last failed attempt: a status such as `503`, or `timeout`, `dns` and others; `none`: no attempt failed. */
  cause?: string | undefined;
  /** Of the event. */
  errorCode?: string | undefined;
  /** Of events received from this time on. */
  from?: Time | undefined;
  /** Of events received before this time. */
  to?: Time | undefined;
  /** Most deliveries in total. Default: all that match. */
  limit?: number | undefined;
}

export interface DeliveryGroupFilter {
  route?: string | undefined;
  state?: DeliveryState | undefined;
  errorCode?: string | undefined;
  from?: Time | undefined;
  to?: Time | undefined;
}

/** Of work that takes several requests. */
export interface StepOptions {
  /** Called after each request with the number done so far. */
  onProgress?: ((done: number) => void) | undefined;
  /** No further request is made once it is aborted; what is done stays done. */
  signal?: AbortSignal | undefined;
}

export interface ReplayFilter {
  route?: string | undefined;
  cause?: string | undefined;
  /** Only `quarantined` takes `source` and `event`; it releases what is valid now. */
  disposition?: "routed" | "filtered" | "ignored" | "quarantined" | undefined;
  source?: string | undefined;
  /** The seq of one quarantined event. */
  event?: number | undefined;
  /** Default: `["dead"]`. `["waiting"]`: those that wait for their next attempt go out now. */
  states?: readonly ("dead" | "delivered")[] | readonly ["waiting"] | undefined;
  errorCode?: string | undefined;
  from?: Time | undefined;
  to?: Time | undefined;
}

interface TrackedFilter extends Reveal {
  account?: string | undefined;
  status?: string | undefined;
  reference?: string | undefined;
  /** Wamid or run id, masked id, service id, reference or its prefix, or at least the last 4 digits of the phone. */
  q?: string | undefined;
  /** Most items in total. Default: all that match. */
  limit?: number | undefined;
}

export interface MessageFilter extends TrackedFilter {
  errorCode?: string | undefined;
  /** Changed from this time on. */
  from?: Time | undefined;
  /** Changed before this time. */
  to?: Time | undefined;
  /** At least the last 4 digits. */
  phone?: string | undefined;
}

export interface RunFilter extends TrackedFilter {
  runId?: string | undefined;
}

export interface ExplainFilter extends Reveal {
  /** What the name is. Default: the first that has it. */
  as?: "event" | "message" | "run" | undefined;
  account?: string | undefined;
  /** Only events with a greater seq: `next` of the page before. */
  after?: number | undefined;
  /** Most events of each story. Default: 50; at most 200. */
  limit?: number | undefined;
}

export interface SeriesFilter {
  name: string;
  by?: string | undefined;
  from?: Time | undefined;
  to?: Time | undefined;
  /** Default: `minute` up to 24 hours, `hour` up to 31 days, else `day`. */
  step?: "minute" | "hour" | "day" | undefined;
  source?: string | undefined;
  route?: string | undefined;
}

export interface QualityFilter {
  from?: Time | undefined;
  to?: Time | undefined;
  route?: string | undefined;
  /** The beginning of the references. */
  reference?: string | undefined;
}

export interface AuditRange {
  /** Received from this time on. */
  from?: Time | undefined;
  /** Received before this time. */
  to?: Time | undefined;
  source?: string | undefined;
}

export interface AuditOptions {
  /** Called while the audit goes on. */
  onProgress?: ((progress: AuditProgress) => void) | undefined;
  /** Throws its reason once it is aborted. */
  signal?: AbortSignal | undefined;
}

/** Which events `live` shows as they are stored. */
export interface LiveFilter {
  /** True: also events. */
  tail?: boolean | undefined;
  source?: string | undefined;
  /** Event kind. */
  event?: string | undefined;
  status?: string | undefined;
  disposition?: Disposition | undefined;
  account?: string | undefined;
  errorCode?: string | undefined;
}

/** The body of `POST /v1/messages`, with exactly one of `text` and `template`. */
export interface MessageOrder {
  /** Phone number with country code, starting with `+`. */
  to: string;
  /** Only within 24 hours of the customer's last message. */
  text?: string | undefined;
  template?: { id: string; variables?: Readonly<Record<string, string>> | undefined } | undefined;
  /** Required when the relay's settings have several. */
  account?: string | undefined;
  /** The sending number, if several are connected. */
  phoneNumberId?: string | undefined;
  /** Your own reference, such as an order number. */
  reference?: string | undefined;
  metadata?: Readonly<Record<string, unknown>> | undefined;
}

export interface RunOrder {
  /** The business record: one run for each, for ever. */
  reference: string;
  phone: string;
  name?: string | undefined;
  data?: Readonly<Record<string, string>> | undefined;
  account?: string | undefined;
  metadata?: Readonly<Record<string, unknown>> | undefined;
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

export interface ReconcileFilter {
  /** This account only. Default: every account that can be polled. */
  account?: string | undefined;
}
