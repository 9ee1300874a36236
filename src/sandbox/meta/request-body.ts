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
