import { wabaIdOf } from "../main-account.ts";
import type { TemplateRecord, TemplateVariable } from "../world/records.ts";

/** What a caller gives of a template; the rest is made up. */
export interface TemplateOrder {
  readonly name: string;
  readonly body: string;
  readonly variables: readonly {
    readonly name: string;
    readonly label?: string | undefined;
    readonly example: string;
    readonly fallback?: string | undefined;
  }[];
  readonly language: string;
  readonly category: string;
  readonly status: TemplateRecord["status"];
}

export function newTemplate(owned: Pick<TemplateRecord, "id" | "account" | "createdAt">, order: TemplateOrder): TemplateRecord {
  const { name, language, category, body, status } = order;
  const wabaId = wabaIdOf(owned.account);
  return { ...owned, name, metaName: metaNameOf(name), language, category, wabaId, body, variables: order.variables.map(whole), status };
}

function whole({ name, label = name, example, fallback }: TemplateOrder["variables"][number]): TemplateVariable {
  return fallback === undefined ? { name, label, example } : { name, label, example, fallback };
}

/** Names at the network provider have lower-case letters, digits and underscores. */
function metaNameOf(name: string): string {
  const plain = name
    .normalize("NFD")
    .replace(/\p{Mn}/gu, "")
    .toLowerCase();
  return plain.replace(/[^a-z0-9]+/g, "_").replace(/^_+|_+$/g, "") || "plantilla";
}
