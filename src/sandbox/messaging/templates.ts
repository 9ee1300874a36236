import { type ApiFault, refused } from "../api/fault.ts";
import type { ContactRecord, TemplateRecord, TemplateVariable } from "../world/records.ts";
import type { World } from "../world/world.ts";

export function approvedTemplates(world: World, account: string): TemplateRecord[] {
  return world.templates
    .list(account)
    .filter(({ status }) => status === "approved")
    .reverse();
}

export function templateView({ id, name, metaName, language, category, wabaId, variables }: TemplateRecord) {
  return { id, name, metaName, language, category, wabaId, variables: variables.map(({ name, label }) => ({ name, label })) };
}

export const templateGone = (): ApiFault => refused(404, "La plantilla ya no existe.");

export function templateToSend(world: World, account: string, id: string): TemplateRecord {
  const template = world.templates.of(account, id.toLowerCase());
  if (template === undefined) throw templateGone();
  if (template.status !== "approved") throw refused(409, "La plantilla todavía no fue aprobada por el proveedor.");
  return template;
}

type Values = Readonly<Record<string, string>>;
type Facts = Pick<ContactRecord, "name" | "attributes"> | undefined;

/**
 * "POST /messages", 3: the value sent, else the contact's datum, else the fallback, else the example. The sandbox's choices: a value
 * sent may be empty, an empty datum is none, and undeclared `{{names}}` stay.
 */
export function fillTemplate(template: TemplateRecord, sent: Values, contact: Facts): string {
  const declared = new Map(template.variables.map((variable) => [variable.name, variable]));
  return template.body.replace(/\{\{([^{}]+)\}\}/g, (place, padded: string) => {
    const variable = declared.get(padded.trim());
    return variable === undefined ? place : fillerOf(variable, sent, contact);
  });
}

function fillerOf({ name, fallback, example }: TemplateVariable, sent: Values, contact: Facts): string {
  const datum = name === "nombre" ? contact?.name : own(contact?.attributes ?? {}, name);
  return own(sent, name) ?? (datum || undefined) ?? fallback ?? example;
}

/** A variable may be called `constructor`. */
function own(values: Values, name: string): string | undefined {
  return Object.hasOwn(values, name) ? values[name] : undefined;
}
