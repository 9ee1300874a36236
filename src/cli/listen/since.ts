import type { Command } from "commander";
import { durationSchema } from "../../event/units.ts";
import { checkedOption, time } from "../options.ts";

/** What `--since` says: a duration in ms, or a time in ISO 8601. */
export function checkedSince(command: Command, text: string): number | string {
  return checkedOption(command, "since", text, since);
}

function since(text: string): number | string {
  const duration = durationSchema.safeParse(text);
  return duration.success ? duration.data : time(text);
}
