import type { ContactRecord, TemplateRecord, TemplateVariable } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { templateGone, templateNotApproved } from "./refusals.ts";

export function approvedTemplates(world: World, account: string): TemplateRecord[] {
  return world.templates
    .list(account)
    .filter(({ status }) => status === "approved")
    .reverse();
}

/** 404 when the account has no such template (any more), 409 when the provider has not approved it, or has rejected it. */
export function templateToSend(world: World, account: string, id: string): TemplateRecord {
  const template = world.templates.of(account, id.toLowerCase());
  if (template === undefined) throw templateGone();
  if (template.status !== "approved") throw templateNotApproved();
  return template;
}

type Values = Readonly<Record<string, string>>;

/**
 * The text of a template as the customer sees it (messaging-service-api.md, "POST /messages", 3): each variable is
 * the value sent, else the contact's datum, else the template's fallback, else its example. What a value holds is
 * never filled in again. The sandbox's choices: a value sent may be empty, a contact's empty datum is none, and
 * `{{names}}` that the template does not declare stay as they are.
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
