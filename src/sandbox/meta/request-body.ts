import type { Json, Update } from "./update.ts";

/** Of a request: Meta, "Webhooks overview". */
export const mostUpdates = 1_000;

/** An entry per business account, a change per field, number and list. */
export function requestBody(updates: readonly Update[]): string {
  const entries = [...Map.groupBy(updates, ({ wabaId }) => wabaId)].map(([id, all]) => {
    const changes = [...Map.groupBy(all, changeOf).values()].map(changeFor);
    const time = all.find((update) => update.list === null)?.time;
    return { id, ...(time !== undefined && { time: Math.floor(time / 1000) }), changes };
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
  return update.list === null ? update : `${update.field} ${update.number.phoneNumberId} ${update.field === "messages" ? update.list : ""}`;
}

function changeFor(updates: readonly Update[]): Json {
  const [first] = updates as readonly [Update];
  const { field } = first;
  if (first.list === null) return { field, value: first.value };
  const items = updates.filter((update) => update.list !== null);
  const contacts = new Map(items.flatMap(({ contact }) => (contact === null ? [] : [[JSON.stringify(contact), contact]])));
  const { phone, phoneNumberId } = first.number;
  const value = {
    messaging_product: "whatsapp",
    metadata: { display_phone_number: phone.replace(/^\+/, ""), phone_number_id: phoneNumberId },
    ...(contacts.size === 0 ? {} : { contacts: [...contacts.values()] }),
    ...Object.fromEntries([...Map.groupBy(items, ({ list }) => list)].map(([list, each]) => [list, each.map(({ item }) => item)])),
  };
  return { field, value };
}

export interface RequestItem {
  readonly wabaId: unknown;
  readonly field: unknown;
  readonly phoneNumberId: unknown;
  /** Null: `item` is the whole value of the change. */
  readonly list: string | null;
  readonly item: unknown;
  readonly contacts: readonly Json[];
}

interface Request {
  readonly entry: readonly { readonly id: unknown; readonly changes: readonly { readonly field: unknown; readonly value: Json }[] }[];
}

/** All updates of a request. Throws for a body that is no request of Meta's. */
export function readRequest(body: Buffer): RequestItem[] {
  const { entry } = JSON.parse(body.toString("utf8")) as Request;
  return entry.flatMap(({ id, changes }) =>
    changes.flatMap(({ field, value }): RequestItem[] => {
      const { phone_number_id: phoneNumberId } = (value["metadata"] ?? {}) as Json;
      const about = { wabaId: id, field, phoneNumberId, contacts: (value["contacts"] ?? []) as readonly Json[] };
      const lists = ["statuses", "messages", "calls"].filter((list) => Array.isArray(value[list]));
      if (lists.length === 0) return [{ ...about, list: null, item: value }];
      return lists.flatMap((list) => (value[list] as readonly unknown[]).map((item) => ({ ...about, list, item })));
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
