import { hash } from "node:crypto";
import { codeText, type Subject } from "../event.ts";
import {
  cutText,
  hasIdLength,
  isStorable,
  maxIdLength,
  maxReferenceLength,
  type Wamid,
} from "../ids.ts";
import { isObject } from "../json.ts";

/**
 * The event kinds of Meta's webhook fields, as public as the endpoints. A field that is not here
 * becomes `meta.<field>`.
 */
export const metaKinds: Readonly<Record<string, string>> = {
  account_alerts: "account.alert",
  account_review_update: "account.review",
  account_settings_update: "account.settings",
  account_update: "account.update",
  automatic_events: "number.automatic_event",
  business_capability_update: "account.capability",
  business_username_update: "number.username",
  business_username_updates: "number.username",
  consumer_profile: "user.profile",
  flows: "flow.update",
  group_lifecycle_update: "group.lifecycle",
  group_participants_update: "group.participants",
  group_settings_update: "group.settings",
  group_status_update: "group.status",
  history: "coexistence.history",
  message_template_components_update: "template.components",
  message_template_quality_update: "template.quality",
  message_template_status_update: "template.status",
  messaging_handovers: "conversation.handover",
  partner_solutions: "account.partner_solution",
  payment_configuration_update: "account.payment",
  phone_number_name_update: "number.name",
  phone_number_quality_update: "number.quality",
  security: "account.security",
  smb_app_state_sync: "coexistence.state",
  standby: "conversation.standby",
  template_category_update: "template.category",
  template_correct_category_detection: "template.category_detected",
  user_id_update: "user.id",
  user_preferences: "user.preferences",
};

export const metaItemKinds = {
  statuses: "message.status",
  messages: "message.received",
  message_echoes: "message.echoed",
  callConnect: "call.connect",
  callTerminate: "call.terminate",
  callOther: "call.update",
  callStatus: "call.status",
  paymentStatus: "payment.status",
  errors: "number.error",
} as const;

export function otherKind(word: string): string {
  return /^[\w.-]{1,64}$/.test(word) ? `meta.${word}` : "meta.unknown";
}

export type Json = Readonly<Record<string, unknown>>;

export const lists = ["statuses", "messages", "message_echoes", "calls", "errors"] as const;
export type List = (typeof lists)[number];

export const isList = (key: string): key is List => (lists as readonly string[]).includes(key);

/**
 * Where an item is in a request. Without `change` it is the entry; without `list` what the change
 * has beside its lists.
 */
export interface Place {
  readonly entry: number;
  readonly change?: number;
  readonly list?: List;
  readonly index?: number;
  readonly contact?: number | undefined;
  readonly isSplit?: boolean;
}

/**
 * An item before it has an id. `key`: what identifies it; null: nothing does. `at`: its time, as
 * sent.
 */
export type Found =
  | { readonly error: string }
  | {
      readonly kind: string;
      readonly key: string | null;
      readonly at: unknown;
      readonly data: Json;
      readonly subject: Subject;
    };

export interface About {
  readonly phoneNumberId?: string;
  readonly wabaId?: string;
  /** The item's own, as Meta wrote it. */
  readonly contact?: Json;
}

interface ItemParts {
  readonly field: string;
  readonly about: About;
  readonly where: string;
  readonly time: unknown;
}

export function readItem(list: List, item: unknown, parts: ItemParts): Found {
  if (!isObject(item)) return { error: `${parts.where} is not an object` };
  switch (list) {
    case "statuses":
      if (item["type"] === "call" || parts.field === "calls") return call(item, parts, "status");
      return item["type"] === "payment" ? payment(item, parts) : status(item, parts);
    case "messages":
      return message(metaItemKinds.messages, item, parts);
    case "message_echoes":
      return message(metaItemKinds.message_echoes, item, parts);
    case "calls":
      return call(item, parts, "event");
    case "errors":
      return {
        kind: metaItemKinds.errors,
        key: null,
        at: parts.time,
        data: { ...parts.about, ...firstError([item]), raw: item },
        subject: none,
      };
  }
}

const statusWords: ReadonlyMap<string, string> = new Map([["played", "read"]]);

function status(item: Json, { about, where }: ItemParts): Found {
  const wamid = textOf(item["id"]);
  const word = textOf(item["status"]);
  if (wamid === null || !isId(wamid))
    return { error: `${where}.id ${wamid === null ? "is missing" : "is not a message id"}` };
  if (word === null) return { error: `${where}.status is missing` };
  const status = cutText(statusWords.get(word) ?? word, maxIdLength);
  const errors = Array.isArray(item["errors"]) ? item["errors"].filter(isObject) : [];
  const participant =
    textOf(item["recipient_participant_id"]) ?? textOf(item["recipient_participant_user_id"]);
  const { errorCode, ...reasons } = firstError(errors);
  const reference = textOf(item["biz_opaque_callback_data"]);
  const conversation = item["conversation"];
  const data = {
    wamid,
    status,
    ...about,
    ...present({
      recipient: textOf(item["recipient_id"]) ?? textOf(item["recipient_user_id"]),
      participant,
      conversationId: isObject(conversation) ? textOf(conversation["id"]) : null,
      reference,
      errorCode,
    }),
    ...reasons,
    raw: item,
  };
  // Two participants of a group have one message. A message fails for each of its reasons once.
  const key = [wamid, word, participant ?? "", word === "failed" ? (errorCode ?? "") : ""].join(
    "\0",
  );
  const subject: Subject = {
    type: "message",
    wamid: wamid as Wamid,
    status,
    errorCode: errorCode ?? null,
    ...(reference === null || !isId(reference, maxReferenceLength) ? {} : { reference }),
  };
  return { kind: metaItemKinds.statuses, key, at: item["timestamp"], data, subject };
}

/**
 * What became of the payment that a message asks for. A second attempt and a refund have the id and
 * the word of the first, so the whole item is the key.
 */
function payment(item: Json, { about }: ItemParts): Found {
  const wamid = wamidOf(item);
  const { payment: paid } = item;
  const data = {
    ...about,
    ...present({
      wamid,
      status: textOf(item["status"]),
      recipient: textOf(item["recipient_id"]) ?? textOf(item["from"]),
      reference: isObject(paid) ? textOf(paid["reference_id"]) : null,
    }),
    raw: item,
  };
  return {
    kind: metaItemKinds.paymentStatus,
    key: hash("sha256", canonical(item)),
    at: item["timestamp"],
    data,
    subject: aboutMessage(wamid),
  };
}

function message(kind: string, item: Json, { about }: ItemParts): Found {
  const wamid = wamidOf(item);
  const data = {
    ...about,
    ...present({
      wamid,
      type: textOf(item["type"]),
      from: textOf(item["from"]) ?? textOf(item["from_user_id"]),
      to: textOf(item["to"]) ?? textOf(item["to_user_id"]),
      groupId: textOf(item["group_id"]),
    }),
    raw: item,
  };
  // The message itself can still come, under the id that it had when it was unavailable.
  const key = wamid !== null && item["type"] === "unsupported" ? `${wamid}\0unsupported` : wamid;
  return { kind, key, at: item["timestamp"], data, subject: aboutMessage(wamid) };
}

function wamidOf(item: Json): string | null {
  const id = textOf(item["id"]);
  return id !== null && isId(id) ? id : null;
}

const aboutMessage = (wamid: string | null): Subject =>
  wamid === null ? none : { type: "message", wamid: wamid as Wamid, status: null, errorCode: null };

const callKinds: ReadonlyMap<string | null, string> = new Map([
  ["connect", metaItemKinds.callConnect],
  ["terminate", metaItemKinds.callTerminate],
]);

/** A call, which has an event, or the status of one. */
function call(item: Json, { about }: ItemParts, member: "event" | "status"): Found {
  const id = textOf(item["id"]);
  const word = textOf(item[member]);
  const kind =
    member === "status"
      ? metaItemKinds.callStatus
      : (callKinds.get(word) ?? metaItemKinds.callOther);
  const data = { ...about, ...present({ callId: id, [member]: word }), raw: item };
  return {
    kind,
    key: id === null ? null : `${id}\0${word ?? ""}`,
    at: item["timestamp"],
    data,
    subject: none,
  };
}

function firstError([error = {}]: readonly Json[]) {
  const { code, title, message, error_data: more } = error;
  return present({
    errorCode: codeText(code),
    errorTitle: textOf(title) ?? textOf(message),
    errorDetails: isObject(more) ? textOf(more["details"]) : null,
  });
}

/** Keys of phone numbers and user ids. */
const people = [
  ...[
    "recipient_participant_id",
    "recipient_participant_user_id",
    "recipient_id",
    "recipient_user_id",
  ],
  ...["from", "from_user_id", "to", "to_user_id"],
];

/** Finds the place of the only contact that is an item's; undefined when none is. Never guesses. */
export function contactFinder(contacts: readonly unknown[]): (item: unknown) => number | undefined {
  const places = new Map<unknown, number>();
  for (const [place, contact] of contacts.entries()) {
    if (!isObject(contact)) continue;
    // Of a message sent to the id of the parent, `recipient_user_id` is that.
    for (const id of [contact["wa_id"], contact["user_id"], contact["parent_user_id"]])
      if (isText(id) && !places.has(id)) places.set(id, place);
  }
  return (item) => {
    if (!isObject(item)) return undefined;
    const found = people.map((key) => places.get(item[key])).filter((place) => place !== undefined);
    return found.length === 0 ? undefined : Math.min(...found);
  };
}

export const none: Subject = { type: "none" };

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
export const textOf = (value: unknown): string | null =>
  isText(value) ? value : typeof value === "number" ? String(value) : null;
const isId = (text: string, most?: number): boolean => hasIdLength(text, most) && isStorable(text);

export function present<T extends Readonly<Record<string, unknown>>>(
  members: T,
): { readonly [K in keyof T]?: NonNullable<T[K]> } {
  const found: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(members))
    if (value !== null && value !== undefined) found[key] = value;
  return found as never;
}

/**
 * JSON with the keys of every object in order: a repeated update is one event, however it was
 * written.
 */
export function canonical(value: unknown): string {
  return JSON.stringify(value ?? null, (_key, each: unknown) =>
    isObject(each)
      ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );
}
