import { type Command, InvalidArgumentError } from "commander";
import { durationSchema } from "../event/units.ts";
import { checkedOption } from "./checked-option.ts";
import type { TimeOptions } from "./time-options.ts";

/** The options as the API takes them, in ISO 8601. */
export function timeFilter(command: Command, { from, to, since }: TimeOptions, now: number): { from?: string; to?: string } {
  const start = since === undefined ? from : new Date(now - checkedOption(command, "since", since, duration)).toISOString();
  return { ...(start === undefined ? {} : { from: start }), ...(to === undefined ? {} : { to }) };
}

function duration(text: string): number {
  const parsed = durationSchema.safeParse(text);
  if (!parsed.success) throw new InvalidArgumentError("It must be a duration, such as 30m, 2h or 7d.");
  return parsed.data;
}
