import { expect, test } from "vitest";
import { fieldsSchema } from "../../../../src/model/event.ts";
import { meta } from "../../../../src/model/formats/meta.ts";

/*
 * What apps for Meta's webhooks need of a request, by their sources of 2026: each function says why an app would not take
 * the request, or null. They change; a difference is a reason to read their source again.
 */
interface Item extends Record<string, unknown> {
  readonly status?: string;
  readonly recipient_id?: string;
  readonly from?: string;
  readonly type?: string;
  readonly pricing?: Readonly<Record<string, unknown>>;
}
interface Contact {
  readonly wa_id?: string;
  readonly user_id?: string;
  readonly profile?: { readonly name?: string };
}
interface Request {
  readonly object?: string;
  readonly entry: readonly {
    readonly id?: string;
    readonly changes: readonly {
      readonly field: string;
      readonly value: {
        readonly messaging_product?: string;
        readonly metadata?: { readonly display_phone_number?: string; readonly phone_number_id?: string };
        readonly contacts?: readonly Contact[];
        readonly messages?: readonly Item[];
        readonly statuses?: readonly Item[];
      };
    }[];
  }[];
}

type Value = Request["entry"][number]["changes"][number]["value"];
interface Read {
  readonly request: Request;
  readonly value: Value;
  readonly message: Item | undefined;
  readonly status: Item | undefined;
  readonly contact: Contact | undefined;
}

const hasBothNumbers = ({ metadata }: Value): boolean => Boolean(metadata?.display_phone_number && metadata.phone_number_id);
const fourWords = ["sent", "delivered", "read", "failed"];

const consumers: Readonly<Record<string, (of: Read) => string | null>> = {
  chatwoot: ({ request, value, message, contact }) => {
    if (request.object === undefined || !hasBothNumbers(value)) return "not its number";
    return message !== undefined && contact === undefined ? "no contact" : null;
  },
  n8n: ({ request }) => (request.object === undefined ? "no object" : null),
  typebot: ({ status, value }) => {
    if (status !== undefined && status.recipient_id === undefined) return "no recipient_id";
    if (status?.status !== undefined && ![...fourWords, "deleted"].includes(status.status)) return "unknown status";
    const { pricing } = status ?? {};
    if (pricing !== undefined && !["billable", "pricing_model", "category"].every((key) => Object.hasOwn(pricing, key))) return "pricing";
    return value.contacts?.some(({ profile }) => profile !== undefined && profile.name === undefined) === true ? "no name" : null;
  },
  evolution: ({ value, message, status, contact }) => {
    if (value.metadata === undefined) return "no metadata";
    if (message?.from === undefined && status?.recipient_id === undefined) return "no phone number";
    return value.contacts !== undefined && contact?.profile?.name === undefined ? "contact without name" : null;
  },
  botpress: ({ request, value, status }) => {
    if (!hasBothNumbers(value) || value.messaging_product === undefined || request.entry[0]?.id === undefined) return "schema";
    return status?.status !== undefined && !fourWords.includes(status.status) ? "unknown status" : null;
  },
  pywa: ({ value, contact }) => {
    if (value.metadata === undefined) return "no metadata";
    return contact?.user_id === undefined ? "no contact with user_id" : null;
  },
  "whatsapp-api-js": ({ request, value }) => (request.object === undefined || value.metadata === undefined ? "shape" : null),
  netflie: ({ value, status }) => {
    if (!hasBothNumbers(value)) return "no metadata";
    return status !== undefined && status.recipient_id === undefined ? "no recipient_id" : null;
  },
  frappe: ({ message }) => (message !== undefined && (message.from === undefined || message.type === undefined) ? "no from" : null),
  zammad: ({ value, message, contact }) => {
    if (value.metadata?.phone_number_id === undefined) return "no metadata";
    return message !== undefined && (message.from === undefined || contact?.profile?.name === undefined) ? "no sender" : null;
  },
  odoo: ({ request, message }) => {
    if (request.entry[0]?.id === undefined) return "no account";
    return message !== undefined && message.from === undefined ? "no from" : null;
  },
};

const pricing = { billable: true, pricing_model: "PMP", type: "regular", category: "utility" };
const person = (digit: number) => ({ wa_id: `1650555000${digit}`, user_id: `US.1349120865530274191${digit}` });
const [maria, li, kofi] = [person(1), person(2), person(3)];
const [jose, ana] = [{ user_id: "BR.90210" }, { user_id: "BR.90211" }];
const status = (word: string, more: object = {}) => ({ id: `wamid.${word}`, status: word, timestamp: "1750263773", ...more });

/** What Meta puts into `value` for each item alone. */
const alone: Readonly<Record<string, Partial<Value>>> = {
  text: {
    contacts: [{ profile: { name: "María" }, ...maria }],
    messages: [
      { from: maria.wa_id, from_user_id: maria.user_id, id: "wamid.t", timestamp: "1750263774", type: "text", text: { body: "Sí" } },
    ],
  },
  "text without a phone number": {
    contacts: [{ profile: { name: "José" }, ...jose }],
    messages: [{ from_user_id: jose.user_id, id: "wamid.u", timestamp: "1750263774", type: "text", text: { body: "Oi" } }],
  },
  sent: { contacts: [{ ...li }], statuses: [status("sent", { recipient_id: li.wa_id, recipient_user_id: li.user_id, pricing })] },
  "read without a phone number": { contacts: [ana], statuses: [status("read", { recipient_user_id: ana.user_id })] },
  played: { contacts: [{ profile: { name: "Kofi" }, ...kofi }], statuses: [status("played", { recipient_id: kofi.wa_id })] },
  failed: { statuses: [status("failed", { recipient_id: "16505550009", errors: [{ code: 131049, title: "not sent" }] })] },
};

const requestOf = (value: Partial<Value>): Request => ({
  object: "whatsapp_business_account",
  entry: [
    {
      id: "102290129340398",
      changes: [
        {
          value: {
            messaging_product: "whatsapp",
            metadata: { display_phone_number: "15550783881", phone_number_id: "106540352242922" },
            ...value,
          },
          field: "messages",
        },
      ],
    },
  ],
});

/** The requests that a consumer gets for a batch of all of them. */
function split(): Request[] {
  const values = Object.values(alone);
  const batch = requestOf({
    contacts: values.flatMap(({ contacts = [] }) => contacts),
    messages: values.flatMap(({ messages = [] }) => messages),
    statuses: values.flatMap(({ statuses = [] }) => statuses),
  });
  const items = meta.items(Buffer.from(JSON.stringify(batch)), { source: "wa", fields: fieldsSchema.parse({}) });
  return items.map(({ body }) => JSON.parse(body.toString("utf8")) as Request);
}

/** The item that a request is about: the names of all are different. */
function nameOf({ entry }: Request): string {
  const { messages = [], statuses = [] } = entry[0]?.changes[0]?.value ?? {};
  const id = (messages[0] ?? statuses[0])?.["id"];
  return Object.keys(alone).find((name) =>
    [...(alone[name]?.messages ?? []), ...(alone[name]?.statuses ?? [])].some((each) => each["id"] === id),
  ) as string;
}

test("each item of a batch is sent as Meta would have sent it alone, with its own contact", () => {
  const sent = split();
  expect(sent.map(nameOf).toSorted()).toEqual(Object.keys(alone).toSorted());
  for (const request of sent) expect(request).toEqual(requestOf(alone[nameOf(request)] ?? {}));
});

test("real consumers take each item, except for what Meta itself leaves out or adds", () => {
  const refused = split().flatMap((request) => {
    const value = request.entry[0]?.changes[0]?.value ?? {};
    const { messages: [message] = [], statuses: [status] = [], contacts: [contact] = [] } = value;
    return Object.entries(consumers).flatMap(([consumer, reasonOf]) => {
      const reason = reasonOf({ request, value, message, status, contact });
      return reason === null ? [] : `${consumer}: ${nameOf(request)}: ${reason}`;
    });
  });
  // docs/how-to/one-number-many-consumers.md says what to do about them.
  expect(refused.toSorted()).toEqual([
    "botpress: played: unknown status",
    "evolution: read without a phone number: no phone number",
    "evolution: sent: contact without name",
    "evolution: text without a phone number: no phone number",
    "frappe: text without a phone number: no from",
    "netflie: read without a phone number: no recipient_id",
    "odoo: text without a phone number: no from",
    "pywa: failed: no contact with user_id",
    "typebot: played: unknown status",
    "typebot: read without a phone number: no recipient_id",
    "zammad: text without a phone number: no sender",
  ]);
});
