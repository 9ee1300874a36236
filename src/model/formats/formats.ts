import { type Envelope, parseEnvelope } from "../envelope.ts";
import { type FieldPaths, subjectOf } from "../event.ts";
import type { Format, Item } from "./format.ts";
import { meta } from "./meta.ts";

const standard: Format = {
  items(body, { fields }) {
    const parsed = parseEnvelope(body);
    if (!parsed.ok) return [{ body, numbers: [], content: parsed }];
    const { envelope } = parsed;
    return [
      { body, numbers: [], content: { ok: true, envelope, subject: subjectOf(envelope, fields) } },
    ];
  },
};

export const formats = { standard, meta } as const satisfies Record<string, Format>;
export type FormatName = keyof typeof formats;

interface StoredBody {
  /** Null: `standard`. */
  readonly format: string | null;
  readonly source: string;
  readonly body: Buffer;
  readonly request: string | null;
  readonly place: number | null;
  readonly receivedAt: number;
}

export function readStoredItems(
  { format, source, body, request, place, receivedAt }: StoredBody,
  fields: FieldPaths,
): readonly Item[] {
  const from =
    request === null || place === null
      ? {}
      : { from: { digest: readRequestText(request).digest, place } };
  return formatOf(format).items(body, { source, fields, receivedAt, ...from });
}

/** The kind and data of a stored event, as routes match them. Null: its body is not an event. */
export function readContent(
  format: string | null | undefined,
  body: Buffer,
): Omit<Envelope, "id"> | null {
  const [item] = formatOf(format).items(body, { source: "", fields: noFields });
  return item?.content.ok === true ? item.content.envelope : null;
}

const noFields: FieldPaths = { wamid: [], status: [], errorCode: [], runId: [], error: [] };

export function formatOf(name: string | null | undefined): Format {
  const format = name ?? "standard";
  if (Object.hasOwn(formats, format)) return formats[format as FormatName];
  return {
    items: (body) => [
      { body, numbers: [], content: { ok: false, error: `this relay has no format "${format}"` } },
    ],
  };
}

/** The account of an item. Null: none has its numbers, and there is no default. */
export function accountOf(
  {
    account,
    accounts,
  }: { readonly account: string; readonly accounts: Readonly<Record<string, string>> },
  numbers: readonly string[],
): string | null {
  const number = numbers.find((each) => Object.hasOwn(accounts, each));
  return number === undefined ? account || null : (accounts[number] as string);
}

export const noAccountText = (numbers: readonly string[]): string =>
  `no account has the number ${numbers.join(" or ")}`;

interface RequestFacts {
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
