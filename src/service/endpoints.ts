import { z } from "zod";
import type { CallCap, CallOperation, CallPriority } from "./admission.ts";
import {
  type Account,
  accountSchema,
  type Campaign,
  type Contact,
  type ContactPage,
  campaignListSchema,
  contactLookupSchema,
  contactPageSchema,
  type Message,
  messageSchema,
  type Receipt,
  type Run,
  receiptSchema,
  runSchema,
  type Template,
  templateListSchema,
} from "./schemas.ts";

/** What the client knows of an endpoint before it calls it. `T`: what its answer becomes. */
export interface Endpoint<T> {
  /** Method and path as the document writes them; for errors and metrics. */
  readonly name: string;
  readonly method: "GET" | "POST";
  readonly cap: CallCap;
  readonly operation: CallOperation;
  /** Unless the caller says otherwise. */
  readonly priority: CallPriority;
  /** Calling twice does the same as calling once, so that an unknown outcome may be tried again (document, "Safe retries"). */
  readonly idempotent: boolean;
  readonly answer: z.ZodType<T>;
  /** An answer without a body is read as null. */
  readonly mayBeEmpty: boolean;
}

function reading<T>(path: string, answer: z.ZodType<T>): Endpoint<T> {
  return {
    name: `GET ${path}`,
    method: "GET",
    cap: "requests",
    operation: "reads",
    priority: "ask",
    idempotent: true,
    answer,
    mayBeEmpty: false,
  };
}

/** Every endpoint of the document, once. */
export const endpoints = {
  sendMessage: {
    name: "POST /messages",
    method: "POST",
    cap: "messages",
    operation: "messages",
    priority: "send",
    idempotent: false,
    answer: receiptSchema,
    mayBeEmpty: false,
  } satisfies Endpoint<Receipt>,
  getMessage: reading<Message>("/messages/{id}", messageSchema),
  listTemplates: reading<{ data: Template[] }>("/templates", templateListSchema),
  listContacts: reading<ContactPage>("/contacts", contactPageSchema),
  findContact: reading<{ data: Contact[] }>("/contacts", contactLookupSchema),
  createContact: {
    name: "POST /contacts",
    method: "POST",
    cap: "requests",
    operation: "contacts",
    priority: "ask",
    idempotent: true,
    // Its shape is not shown; that there is one is not said either.
    answer: z.unknown(),
    mayBeEmpty: true,
  } satisfies Endpoint<unknown>,
  listCampaigns: reading<Campaign[]>("/campaigns", campaignListSchema),
  me: reading<Account>("/me", accountSchema),
  startRun: {
    name: "POST /automations/{id}/runs",
    method: "POST",
    cap: "requests",
    operation: "runs",
    priority: "send",
    idempotent: false,
    answer: runSchema,
    mayBeEmpty: false,
  } satisfies Endpoint<Run>,
} as const;
