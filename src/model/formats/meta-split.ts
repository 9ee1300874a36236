import { isList, type Json, type List, type Place } from "./meta-items.ts";

type Value = Json & Readonly<Partial<Record<List | "contacts", readonly unknown[]>>>;
type Change = Json & { readonly value: Value };
type Entry = Json & { readonly changes: readonly Change[] };

/** As `meta.ts` has checked it along the way to a place. */
export interface Request {
  readonly object: unknown;
  readonly entry: readonly Entry[];
}

/**
 * A request with one item. It has only the item's own contact, because others are none of its
 * consumer's business.
 */
export function requestAt({ object, entry: entries }: Request, place: Place): Request {
  const entry = entries[place.entry] as Entry;
  if (place.change === undefined) return { object, entry: [entry] };
  const change = entry.changes[place.change] as Change;
  const alone = place.isSplit ? { ...change, value: valueAt(change.value, place) } : change;
  return { object, entry: [{ ...entry, changes: [alone] }] };
}

function valueAt(value: Value, { list, index, contact }: Place): Value {
  const kept = Object.entries(value).flatMap(([key, each]): [string, unknown][] => {
    if (list === undefined)
      return key === "contacts" || (isList(key) && Array.isArray(each)) ? [] : [[key, each]];
    if (key === list) return [[key, [value[list]?.[index as number]]]];
    if (key === "contacts")
      return contact === undefined ? [] : [[key, [value.contacts?.[contact]]]];
    return key === "messaging_product" || key === "metadata" ? [[key, each]] : [];
  });
  return Object.fromEntries(kept);
}

/** The item itself: the element of a list, else the value of the change, else the entry. */
export function itemAt(
  { entry: entries }: Request,
  { entry, change, list, index }: Place,
): unknown {
  const own = entries[entry];
  if (change === undefined) return own;
  const value = own?.changes[change]?.value;
  return list === undefined ? value : value?.[list]?.[index as number];
}
