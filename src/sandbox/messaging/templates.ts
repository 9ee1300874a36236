import type { TemplateRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { templateGone, templateNotApproved } from "./refusals.ts";

/** Only those that the provider approved, newest first. */
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
