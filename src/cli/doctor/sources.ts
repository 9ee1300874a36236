import type { z } from "zod";
import type { sourcesSchema } from "../../model/answers.ts";
import { spanText } from "../../model/span-text.ts";
import { type Finding, ok, warn } from "./finding.ts";

type Source = z.output<typeof sourcesSchema>["data"][number];

/** Meta's handshake with each source that has verify tokens, and the numbers that events came for. `at`: the relay's time. */
export function judgeSources(sources: readonly Source[], at: number): Finding[] {
  return sources.flatMap((source) => [...judgeHandshake(source), ...source.numbers.map((number) => judgeNumber(source, number, at))]);
}

function judgeHandshake({ source, handshake, numbers }: Source): Finding[] {
  if (handshake === null) return [];
  if (handshake.doneAt !== null) return [ok("source", `${source}: Meta performed the handshake on ${handshake.doneAt}`)];
  // An override or another app may have been verified before this store began.
  if (numbers.length > 0) return [ok("source", `${source}: no handshake was received, but events are`)];
  const todo = `enter the callback URL that ends in /webhooks/${source} and a verify token in the dashboard of the app at Meta`;
  return [warn("source", `${source}: no handshake was received yet`, todo)];
}

function judgeNumber({ source }: Source, { number, account, lastAt }: Source["numbers"][number], at: number): Finding {
  const last = `the last event came ${spanText(at - Date.parse(lastAt))} ago`;
  if (account !== null) return ok("source", `${source}: number ${number}, account ${account}: ${last}`);
  const todo = `add it to sources.${source}.accounts, reload, and release its events: wamid-relay replay --disposition unassigned`;
  return warn("source", `${source}: number ${number} has no account: ${last}`, todo);
}
