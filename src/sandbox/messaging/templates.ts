import type { ContactRecord, TemplateRecord, TemplateVariable } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { templateGone, templateNotApproved } from "./refusals.ts";

export function approvedTemplates(world: World, account: string): TemplateRecord[] {
  return world.templates
    .list(account)
    .filter(({ status }) => status === "approved")
    .reverse();
}

/** Throws 404 when it is not there, 409 when it is not approved. */
export function templateToSend(world: World, account: string, id: string): TemplateRecord {
  const template = world.templates.of(account, id.toLowerCase());
  if (template === undefined) throw templateGone();
  if (template.status !== "approved") throw templateNotApproved();
  return template;
}

type Values = Readonly<Record<string, string>>;

/**
 * "POST /messages", 3: the value sent, else the contact's datum, else the fallback, else the example. The sandbox's choices: a value
 * sent may be empty, an empty datum is none, and undeclared `{{names}}` stay.
 */
export function fillTemplate(template: TemplateRecord, sent: Values, contact: Pick<ContactRecord, "name" | "attributes"> | null): string {
  const declared = new Map(template.variables.map((variable) => [variable.name, variable]));
  return template.body.replace(/\{\{([^{}]+)\}\}/g, (place, padded: string) => {
    const variable = declared.get(padded.trim());
    return variable === undefined ? place : fillerOf(variable, sent, contact);
  });
}

function fillerOf(variable: TemplateVariable, sent: Values, contact: Pick<ContactRecord, "name" | "attributes"> | null): string {
  const { name, fallback, example } = variable;
  const datum = contact === null ? null : name === "nombre" ? contact.name : own(contact.attributes, name);
  return own(sent, name) ?? (datum === "" ? null : datum) ?? fallback ?? example;
}

/** A variable may be called `constructor`. */
function own(values: Values, name: string): string | null {
  return Object.hasOwn(values, name) ? (values[name] as string) : null;
}
