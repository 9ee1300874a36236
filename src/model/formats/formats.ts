import type { FieldPaths } from "../event.ts";
import type { Format, ItemContent, ItemPlace } from "./format.ts";
import { meta } from "./meta.ts";
import { standard } from "./standard.ts";

/** The formats of sources, by the name in the settings. */
export const formats = { standard, meta } as const satisfies Record<string, Format>;
export type FormatName = keyof typeof formats;

/** An event's body as it is stored, with what it takes to read it. */
export interface StoredBody {
  /** Null: `standard`. */
  readonly format: string | null;
  readonly source: string;
  readonly body: Buffer;
  /** {@link requestText}, of an item of a request with several. */
  readonly request: string | null;
  readonly place: number | null;
}

/** Reads an event back from what is stored. */
export function readStored({ format, source, body, request, place }: StoredBody, fields: FieldPaths): ItemContent {
  const from = request === null || place === null ? {} : { from: placeOf(request, place) };
  const items = formatOf(format).items(body, { source, fields, ...from });
  return items.length === 1 && items[0] !== undefined ? items[0].content : { ok: false, error: "the body has several events" };
}

export function formatOf(name: string | null): Format {
  if (name === null) return standard;
  const known = Object.hasOwn(formats, name) ? formats[name as FormatName] : undefined;
  return known ?? { items: (body) => [{ body, numbers: [], content: { ok: false, error: `this relay has no format "${name}"` } }] };
}

/** What is kept of a request with several items: its digest, its size in bytes, and their number. */
export interface RequestFacts {
  readonly digest: string;
  readonly bytes: number;
  readonly items: number;
}

export function requestText({ digest, bytes, items }: RequestFacts): string {
  return `${digest}.${bytes}.${items}`;
}

export function readRequestText(text: string): RequestFacts {
  const [digest = "", bytes = "0", items = "0"] = text.split(".");
  return { digest, bytes: Number(bytes), items: Number(items) };
}

const placeOf = (request: string, place: number): ItemPlace => ({ digest: readRequestText(request).digest, place });
