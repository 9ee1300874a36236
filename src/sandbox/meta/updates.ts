import type { MetaFaults } from "../faults.ts";
import { createRandom, digitsOf } from "../ids.ts";
import type { ContactRecord, MessageRecord, SendingNumber } from "../world.ts";

export type Json = Readonly<Record<string, unknown>>;

export type Update = {
  readonly field: string;
  readonly wabaId: string;
  readonly wamid: string | null;
} & (
  | {
      readonly list: "statuses" | "messages" | "calls";
      readonly item: unknown;
      readonly number: SendingNumber;
      readonly contact: Json | null;
    }
  | { readonly list: null; readonly value: unknown; readonly time: number }
);

/** Chance by name: what happens to one does not shift what happens to another. */
export function isStruck(fault: string, subject: string, share: number): boolean {
  return share > 0 && createRandom(`${fault}/${subject}`).chance(share);
}

export const waIdOf = (phone: string): string => phone.replace(/^\+/, "");

export const userIdOf = (phone: string): string => `AR.${digitsOf(`user/${phone}`, 16)}`;

export interface MessageFacts {
  readonly message: MessageRecord;
  readonly number: SendingNumber;
  readonly wabaId: string;
  readonly contact: ContactRecord | undefined;
  readonly now: number;
}

export function statusUpdates(facts: MessageFacts, faults: MetaFaults): Update[] {
  const { message, number, wabaId, now } = facts;
  const { wamid, status, future, phone } = message;
  if (
    status === "delivered" &&
    future[0]?.status === "read" &&
    isStruck("skip", wamid, faults.skip)
  )
    return [];
  const isUnknown = isStruck("unknown", `${wamid}/${status}`, faults.unknown);
  const shared = {
    id: wamid,
    status,
    timestamp: seconds(now),
    biz_opaque_callback_data: message.reference,
    errors: status === "failed" ? [errorOf(message.errorCode)] : undefined,
    pricing: status === "sent" || status === "delivered" ? pricingOf(message) : undefined,
    future_key: isUnknown ? { since: "v99.0" } : undefined,
  };
  const update = (contact: Json | null, item: Json): Update => {
    return {
      field: "messages",
      list: "statuses",
      wabaId,
      number,
      wamid,
      contact,
      item: { ...shared, ...item },
    };
  };
  if (isStruck("group", wamid, faults.group)) {
    const group = {
      recipient_id: `${digitsOf(`group/${wamid}`, 18)}@g.us`,
      recipient_type: "group",
    };
    return participantsOf(phone).map((each) => {
      const [wa_id, user_id] = [waIdOf(each), userIdOf(each)];
      return update(
        { wa_id, user_id },
        { ...group, recipient_participant_id: wa_id, recipient_participant_user_id: user_id },
      );
    });
  }
  // A message to a phone number fails without the user's id, and without contacts.
  if (status === "failed") return [update(null, { recipient_id: waIdOf(phone) })];
  const contact = contactOf(facts, faults);
  return [
    update(contact, { recipient_id: contact.wa_id, recipient_user_id: contact.user_id }),
    ...(status === "sent" && isStruck("call", wamid, faults.call)
      ? callUpdates(facts, faults)
      : []),
    ...(isUnknown ? [unknownUpdate(facts)] : []),
  ];
}

export function receivedUpdate(facts: MessageFacts, faults: MetaFaults): Update {
  const { message, number, wabaId, now } = facts;
  const contact = contactOf(facts, faults);
  const from = { from: contact.wa_id, from_user_id: contact.user_id };
  const item = {
    ...from,
    id: message.wamid,
    timestamp: seconds(now),
    type: "text",
    text: { body: message.text },
  };
  return { field: "messages", list: "messages", wabaId, number, wamid: null, contact, item };
}

function callUpdates(facts: MessageFacts, faults: MetaFaults): Update[] {
  const { message, number, wabaId, now } = facts;
  const about = {
    id: `wacid.${Buffer.from(`call/${message.wamid}`).toString("base64")}`,
    timestamp: seconds(now),
  };
  const to = waIdOf(message.phone);
  const update = (list: "statuses" | "calls", item: Json): Update => {
    const contact = contactOf(facts, faults);
    return {
      field: "calls",
      list,
      wabaId,
      number,
      wamid: null,
      contact,
      item: { ...about, ...item },
    };
  };
  const call = { from: waIdOf(number.phone), to, direction: "BUSINESS_INITIATED" };
  return [
    update("statuses", { type: "call", recipient_id: to, status: "RINGING" }),
    update("calls", { ...call, event: "connect", session: { sdp_type: "answer", sdp: "v=0\r\n" } }),
    update("statuses", { type: "call", recipient_id: to, status: "ACCEPTED" }),
    update("calls", { ...call, event: "terminate", status: "COMPLETED", duration: 12 }),
  ];
}

function unknownUpdate({ message, wabaId, now }: MessageFacts): Update {
  const value = { event: "CHANGED", about: `${message.id}/${message.status}` };
  return { field: "future_updates", list: null, wabaId, wamid: null, time: now, value };
}

/** Of some people Meta does not show the phone number. */
function contactOf({ message: { phone }, contact }: MessageFacts, faults: MetaFaults) {
  const waId = waIdOf(phone);
  const hasPhone = !isStruck("username", phone, faults.username);
  const profile = {
    name: contact?.name ?? "José Muñoz",
    username: hasPhone ? undefined : `user${waId.slice(-4)}`,
  };
  return { profile, wa_id: hasPhone ? waId : undefined, user_id: userIdOf(phone) };
}

function participantsOf(phone: string): string[] {
  return [phone, ...["a", "b"].map((other) => `+54911${digitsOf(`${other}/${phone}`, 8)}`)];
}

function pricingOf({ templateId }: MessageRecord): Json {
  return {
    billable: templateId !== null,
    pricing_model: "PMP",
    type: "regular",
    category: templateId === null ? "service" : "utility",
  };
}

const titles: Readonly<Record<number, string>> = {
  131026: "Message undeliverable",
  131047: "Re-engagement message",
  131049: "This message was not delivered to maintain healthy ecosystem engagement.",
};
const unnamed = { code: 131000, title: "Something went wrong" };

function errorOf(given: string | number | undefined): Json {
  const number = Number(given);
  const code = Number.isInteger(number) ? number : unnamed.code;
  const title = titles[code] ?? unnamed.title;
  const href = "https://developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes/";
  return { code, title, message: title, error_data: { details: `${title} (${code})` }, href };
}

function seconds(ms: number): string {
  return String(Math.floor(ms / 1000));
}

export function requestBody(updates: readonly Update[]): string {
  const entries = [...Map.groupBy(updates, ({ wabaId }) => wabaId)].map(([id, all]) => {
    const changes = [...Map.groupBy(all, changeOf).values()].map(changeFor);
    const time = all.find((update) => update.list === null)?.time;
    return { id, time: time === undefined ? undefined : Math.floor(time / 1000), changes };
  });
  return asMetaWrites({ object: "whatsapp_business_account", entry: entries });
}

/** JSON in ASCII with escaped slashes, the form that Meta signs. */
export function asMetaWrites(value: unknown): string {
  return JSON.stringify(value)
    .replaceAll("/", "\\/")
    .replace(/[^ -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function changeOf(update: Update): unknown {
  return update.list === null
    ? update
    : `${update.field} ${update.number.phoneNumberId} ${update.field === "messages" ? update.list : ""}`;
}

function changeFor(updates: readonly Update[]): Json {
  const [first] = updates as readonly [Update];
  const { field } = first;
  if (first.list === null) return { field, value: first.value };
  const items = updates.filter((update) => update.list !== null);
  const contacts = new Map(
    items.flatMap(({ contact }) => (contact === null ? [] : [[JSON.stringify(contact), contact]])),
  );
  const { phone, phoneNumberId } = first.number;
  const value = {
    messaging_product: "whatsapp",
    metadata: { display_phone_number: waIdOf(phone), phone_number_id: phoneNumberId },
    contacts: contacts.size === 0 ? undefined : [...contacts.values()],
    ...Object.fromEntries(
      [...Map.groupBy(items, ({ list }) => list)].map(([list, each]) => [
        list,
        each.map(({ item }) => item),
      ]),
    ),
  };
  return { field, value };
}

export interface RequestItem {
  readonly wabaId: unknown;
  readonly field: unknown;
  readonly phoneNumberId: unknown;
  readonly list: string | null;
  readonly item: unknown;
  readonly contacts: readonly Json[];
}

interface Request {
  readonly entry: readonly {
    readonly id: unknown;
    readonly changes: readonly { readonly field: unknown; readonly value: Json }[];
  }[];
}

/** All updates of a request. Throws for a body that is no request of Meta's. */
export function readRequest(body: Buffer): RequestItem[] {
  const { entry } = JSON.parse(body.toString("utf8")) as Request;
  return entry.flatMap(({ id, changes }) =>
    changes.flatMap(({ field, value }): RequestItem[] => {
      const { phone_number_id: phoneNumberId } = (value["metadata"] ?? {}) as Json;
      const about = {
        wabaId: id,
        field,
        phoneNumberId,
        contacts: (value["contacts"] ?? []) as readonly Json[],
      };
      const lists = ["statuses", "messages", "calls"].filter((list) => Array.isArray(value[list]));
      if (lists.length === 0) return [{ ...about, list: null, item: value }];
      return lists.flatMap((list) =>
        (value[list] as readonly unknown[]).map((item) => ({ ...about, list, item })),
      );
    }),
  );
}

/** What makes updates the same. Null: it is not an update. */
export function identityOf({ field, list, item }: RequestItem): string | null {
  if (typeof item !== "object" || item === null) return null;
  if (list === null) return JSON.stringify([field, item]);
  const { id, status, event, recipient_participant_id: participant, errors } = item as Json;
  const [error] = (errors ?? []) as readonly Json[];
  return JSON.stringify([list, id, status, event, participant, error?.["code"]]);
}
