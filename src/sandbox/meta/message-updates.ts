import type { MetaFaults } from "../faults.ts";
import type { ContactRecord, MessageRecord, SendingNumber } from "../world/records.ts";
import { digitsOf, isStruck, type Json, type Update, userIdOf, waIdOf } from "./update.ts";

export interface MessageFacts {
  readonly message: MessageRecord;
  readonly number: SendingNumber;
  readonly wabaId: string;
  readonly contact: ContactRecord | undefined;
  /** Unix milliseconds. */
  readonly now: number;
}

/** Of the message's present status. None: Meta does not report it. */
export function statusUpdates(facts: MessageFacts, faults: MetaFaults): Update[] {
  const { message, number, wabaId, now } = facts;
  const { wamid, status, future } = message;
  if (status === "delivered" && future[0]?.status === "read" && isStruck("skip", wamid, faults.skip)) return [];
  const shared = {
    id: wamid,
    status,
    timestamp: seconds(now),
    ...(message.reference !== undefined && { biz_opaque_callback_data: message.reference }),
    ...(status === "failed" ? { errors: [errorOf(message.errorCode)] } : {}),
    ...(status === "sent" || status === "delivered" ? { pricing: pricingOf(message) } : {}),
    ...(isStruck("unknown", `${wamid}/${status}`, faults.unknown) ? { future_key: { since: "v99.0" } } : {}),
  };
  const common = { field: "messages", list: "statuses", wabaId, number, wamid } as const;
  if (isStruck("group", wamid, faults.group)) {
    const group = { recipient_id: `${digitsOf(`group/${wamid}`, 18)}@g.us`, recipient_type: "group" };
    return participantsOf(message.phone).map((phone) => {
      const item = { ...shared, ...group, recipient_participant_id: waIdOf(phone), recipient_participant_user_id: userIdOf(phone) };
      return { ...common, contact: { wa_id: waIdOf(phone), user_id: userIdOf(phone) }, item };
    });
  }
  const person = personOf(facts, faults);
  // A message to a phone number fails without the user's id, and without contacts.
  if (status === "failed") return [{ ...common, contact: null, item: { ...shared, recipient_id: waIdOf(message.phone) } }];
  const recipient = {
    ...(person.hasPhone ? { recipient_id: waIdOf(message.phone) } : {}),
    recipient_user_id: userIdOf(message.phone),
  };
  return [
    { ...common, contact: person.contact, item: { ...shared, ...recipient } },
    ...(status === "sent" && isStruck("call", wamid, faults.call) ? callUpdates(facts, faults) : []),
    ...(isStruck("unknown", `${wamid}/${status}`, faults.unknown) ? [unknownUpdate(facts)] : []),
  ];
}

export function receivedUpdate(facts: MessageFacts, faults: MetaFaults): Update {
  const { message, number, wabaId, now } = facts;
  const { hasPhone, contact } = personOf(facts, faults);
  const item = {
    ...(hasPhone ? { from: waIdOf(message.phone) } : {}),
    from_user_id: userIdOf(message.phone),
    id: message.wamid,
    timestamp: seconds(now),
    type: "text",
    text: { body: message.text },
  };
  return { field: "messages", list: "messages", wabaId, number, wamid: null, contact, item };
}

/** Statuses of calls are in the list that also holds those of messages. */
function callUpdates(facts: MessageFacts, faults: MetaFaults): Update[] {
  const { message, number, wabaId, now } = facts;
  const id = `wacid.${Buffer.from(`call/${message.wamid}`).toString("base64")}`;
  const { contact } = personOf(facts, faults);
  const common = { field: "calls", wabaId, number, wamid: null, contact } as const;
  const call = { id, from: waIdOf(number.phone), to: waIdOf(message.phone), timestamp: seconds(now), direction: "BUSINESS_INITIATED" };
  const status = { id, type: "call", timestamp: seconds(now), recipient_id: waIdOf(message.phone) };
  return [
    { ...common, list: "statuses", item: { ...status, status: "RINGING" } },
    { ...common, list: "calls", item: { ...call, event: "connect", session: { sdp_type: "answer", sdp: "v=0\r\n" } } },
    { ...common, list: "statuses", item: { ...status, status: "ACCEPTED" } },
    { ...common, list: "calls", item: { ...call, event: "terminate", status: "COMPLETED", duration: 12 } },
  ];
}

function unknownUpdate({ message, wabaId, now }: MessageFacts): Update {
  const value = { event: "CHANGED", about: `${message.id}/${message.status}` };
  return { field: "future_updates", list: null, wabaId, wamid: null, time: now, value };
}

function personOf({ message, contact }: MessageFacts, faults: MetaFaults): { readonly hasPhone: boolean; readonly contact: Json } {
  const hasPhone = !isStruck("username", message.phone, faults.username);
  const profile = { name: contact?.name ?? "José Muñoz", ...(hasPhone ? {} : { username: `user${waIdOf(message.phone).slice(-4)}` }) };
  return { hasPhone, contact: { profile, ...(hasPhone ? { wa_id: waIdOf(message.phone) } : {}), user_id: userIdOf(message.phone) } };
}

function participantsOf(phone: string): string[] {
  return [phone, ...["a", "b"].map((other) => `+54911${digitsOf(`${other}/${phone}`, 8)}`)];
}

function pricingOf({ templateId }: MessageRecord): Json {
  return { billable: templateId !== null, pricing_model: "PMP", type: "regular", category: templateId === null ? "service" : "utility" };
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
