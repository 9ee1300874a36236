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

export interface EventFilter {
  event?: string | undefined;
  source?: string | undefined;
  account?: string | undefined;
  status?: string | undefined;
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

export interface DeliveryFilter {
  route?: string | undefined;
  state?: DeliveryState | undefined;
  /** Most deliveries in total. Default: all that match. */
  limit?: number | undefined;
}

export interface ReplayFilter {
  route?: string | undefined;
  /** Default: `["dead"]`. */
  states?: readonly ("dead" | "delivered")[] | undefined;
  errorCode?: string | undefined;
  from?: Time | undefined;
  to?: Time | undefined;
}

export interface MessageFilter {
  account?: string | undefined;
  status?: string | undefined;
  reference?: string | undefined;
  /** Most items in total. Default: all that match. */
  limit?: number | undefined;
}

export interface RunFilter extends MessageFilter {
  runId?: string | undefined;
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
