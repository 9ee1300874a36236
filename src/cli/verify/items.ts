import type { FieldPaths } from "../../model/event.ts";
import type { Item } from "../../model/formats/format.ts";
import { accountOf, type FormatName, formats } from "../../model/formats/formats.ts";
import { maskWamid } from "../../model/mask.ts";
import { tableLines } from "../output.ts";

/** How a body would be read. */
export interface Reader {
  readonly format: FormatName;
  readonly source: string;
  readonly fields: FieldPaths;
  /** Null: not known, so no item is unassigned. */
  readonly accounts: { readonly account: string; readonly accounts: Readonly<Record<string, string>> } | null;
}

export type ItemReport = ReturnType<typeof itemsOf>[number];

/** What the relay would make of each item of a verified body. */
export function itemsOf(body: Buffer, { format, source, fields, accounts }: Reader) {
  return formats[format].items(body, { source, fields }).map((item, place) => {
    const account = accounts === null ? null : accountOf(accounts, item.numbers);
    return { place, numbers: item.numbers, account, ...described(item, accounts !== null && account === null) };
  });
}

function described({ content, numbers }: Item, isUnassigned: boolean) {
  if (!content.ok) return { result: "quarantined", reason: content.error, event: null, status: null, wamid: null, id: null } as const;
  const { envelope, subject } = content;
  const message = subject.type === "message" ? { status: subject.status, wamid: maskWamid(subject.wamid) } : { status: null, wamid: null };
  const event = { event: envelope.event, ...message, id: envelope.id };
  return isUnassigned
    ? ({ result: "unassigned", reason: `no account has the number ${numbers.join(" or ")}`, ...event } as const)
    : ({ result: "event", reason: null, ...event } as const);
}

export function itemLines(items: readonly ItemReport[]): string[] {
  return tableLines(
    ["ITEM", "EVENT", "STATUS", "NUMBER", "ACCOUNT", "WAMID", "RESULT"],
    items.map(({ place, event, status, numbers, account, wamid, result, reason }) => [
      String(place),
      event ?? "",
      status ?? "",
      numbers[0] ?? "",
      account ?? "",
      wamid ?? "",
      reason === null ? result : `${result}: ${reason}`,
    ]),
  );
}

/** Whether a body is one of Meta's, or of those who pass them on. */
export function isMetaBody(body: Buffer): boolean {
  try {
    const root = JSON.parse(body.toString("utf8")) as { object?: unknown; entry?: unknown } | null;
    return typeof root?.object === "string" && Array.isArray(root.entry);
  } catch {
    return false;
  }
}
