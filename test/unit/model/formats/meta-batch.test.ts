import { expect, test } from "vitest";
import { fieldsSchema } from "../../../../src/model/event.ts";
import { meta } from "../../../../src/model/formats/meta.ts";

type Item = Readonly<Record<string, unknown>>;
interface Value {
  readonly messaging_product?: string;
  readonly metadata?: Item;
  readonly contacts?: readonly Item[];
  readonly messages?: readonly Item[];
  readonly statuses?: readonly Item[];
}
interface Request {
  readonly object: string;
  readonly entry: readonly {
    readonly id: string;
    readonly changes: readonly { readonly field: string; readonly value: Value }[];
  }[];
}

const pricing = { billable: true, pricing_model: "PMP", type: "regular", category: "utility" };
const person = (digit: number) => ({
  wa_id: `1650555000${digit}`,
  user_id: `US.1349120865530274191${digit}`,
});
const [maria, li, kofi] = [person(1), person(2), person(3)];
const [jose, ana] = [{ user_id: "BR.90210" }, { user_id: "BR.90211" }];
const status = (word: string, more: object = {}) => ({
  id: `wamid.${word}`,
  status: word,
  timestamp: "1750263773",
  ...more,
});

/** What Meta puts into `value` for each item alone. */
const alone: Readonly<Record<string, Value>> = {
  text: {
    contacts: [{ profile: { name: "María" }, ...maria }],
    messages: [
      {
        from: maria.wa_id,
        from_user_id: maria.user_id,
        id: "wamid.t",
        timestamp: "1750263774",
        type: "text",
        text: { body: "Sí" },
      },
    ],
  },
  "text without a phone number": {
    contacts: [{ profile: { name: "José" }, ...jose }],
    messages: [
      {
        from_user_id: jose.user_id,
        id: "wamid.u",
        timestamp: "1750263774",
        type: "text",
        text: { body: "Oi" },
      },
    ],
  },
  sent: {
    contacts: [{ ...li }],
    statuses: [status("sent", { recipient_id: li.wa_id, recipient_user_id: li.user_id, pricing })],
  },
  "read without a phone number": {
    contacts: [ana],
    statuses: [status("read", { recipient_user_id: ana.user_id })],
  },
  played: {
    contacts: [{ profile: { name: "Kofi" }, ...kofi }],
    statuses: [status("played", { recipient_id: kofi.wa_id })],
  },
  failed: {
    statuses: [
      status("failed", {
        recipient_id: "16505550009",
        errors: [{ code: 131049, title: "not sent" }],
      }),
    ],
  },
};

const requestOf = (value: Value): Request => ({
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

/** The requests that consumers, who read Meta's, get for a batch of all of them. */
function split(): Request[] {
  const values = Object.values(alone);
  const batch = requestOf({
    contacts: values.flatMap(({ contacts = [] }) => contacts),
    messages: values.flatMap(({ messages = [] }) => messages),
    statuses: values.flatMap(({ statuses = [] }) => statuses),
  });
  const items = meta.items(Buffer.from(JSON.stringify(batch)), {
    source: "wa",
    fields: fieldsSchema.parse({}),
  });
  return items.map(({ body }) => JSON.parse(body.toString("utf8")) as Request);
}

/** The item that a request is about: the names of all are different. */
function nameOf({ entry }: Request): string {
  const { messages = [], statuses = [] } = entry[0]?.changes[0]?.value ?? {};
  const id = (messages[0] ?? statuses[0])?.["id"];
  return Object.keys(alone).find((name) =>
    [...(alone[name]?.messages ?? []), ...(alone[name]?.statuses ?? [])].some(
      (each) => each["id"] === id,
    ),
  ) as string;
}

test("each item of a batch is sent as Meta would have sent it alone, with its own contact", () => {
  const sent = split();
  expect(sent.map(nameOf).toSorted()).toEqual(Object.keys(alone).toSorted());
  for (const request of sent) expect(request).toEqual(requestOf(alone[nameOf(request)] ?? {}));
});

test.each([
  [
    "Meta's escapes",
    String.raw`{"id":"wamid.1","text":{"body":"S\u00ed, https:\/\/a.example\/b"},"timestamp":"1"}`,
  ],
  [
    "plain slashes",
    String.raw`{"id":"wamid.1","text":{"body":"S\u00ed, https://a.example/b"},"timestamp":"1"}`,
  ],
])("writes items with %s as they were", (_what, item) => {
  const batch = JSON.stringify(
    requestOf({ messages: [{ id: "first" }, { id: "second" }] }),
  ).replace('{"id":"first"}', item);
  const [first] = meta.items(Buffer.from(batch), { source: "wa", fields: fieldsSchema.parse({}) });
  expect(first?.body.toString("utf8")).toContain(`"messages":[${item}]`);
});
