import { metaItemKinds, metaKinds } from "../../src/model/formats/meta-items.ts";
import { code, table } from "./markdown.ts";

/** Where Meta's items are. The compiler compares the names with those of the code. */
const places: Record<keyof typeof metaItemKinds, string> = {
  messages: "`messages[]`",
  statuses: "`statuses[]`, but those of calls and payments",
  message_echoes: "`message_echoes[]`",
  callConnect: "`calls[]` with the event `connect`",
  callTerminate: "`calls[]` with the event `terminate`",
  callOther: "`calls[]` with another event",
  callStatus: "`statuses[]` of calls",
  paymentStatus: "`statuses[]` of payments",
  errors: "`errors[]` beside the other lists",
};

/** The event kinds of `format: meta`. */
export function formatsPage(): string {
  const items = Object.entries(metaItemKinds).map(([name, kind]) => [
    code(kind),
    places[name as keyof typeof places],
  ]);
  const fields = Map.groupBy(Object.entries(metaKinds), ([, kind]) => kind);
  const rows = [...fields].map(([kind, all]) => [
    code(kind),
    `field ${all.map(([field]) => code(field)).join(", ")}`,
  ]);
  return table(
    ["event kind", "made of"],
    [
      ...items,
      ...rows.toSorted(([a = ""], [b = ""]) => (a < b ? -1 : 1)),
      [code("meta.<field>"), "any other field"],
    ],
  );
}
