import type { z } from "zod";
import type { Settings } from "../../config/schema.ts";
import type { sourcesSchema } from "../../model/answers.ts";
import { spanText } from "../../model/span-text.ts";
import { type ControlClient, failureOf } from "../control-client.ts";
import { CommandFailed } from "../io.ts";
import { type Finding, fail, ok, skip, warn } from "./finding.ts";

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

/** Whether Meta sends the webhooks of a source there, as its Graph API says. The relay asks, for each source with `graph`. */
export async function checkCallbacks(
  sources: Settings["sources"],
  { client, why }: { readonly client: ControlClient | null; readonly why: string },
): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const [name, source] of Object.entries(sources)) {
    if (source.kind !== "events" || source.format !== "meta" || source.graph === undefined) continue;
    findings.push(...(client === null ? [skip("callback", `${name}: ${why}`)] : await checkCallback(name, client)));
  }
  return findings;
}

async function checkCallback(source: string, client: ControlClient): Promise<Finding[]> {
  const todo = "see docs/how-to/connect-meta.md";
  try {
    const { problems, facts } = await client.checkSource({ source });
    return [
      ...problems.map((text) => fail("callback", `${source}: ${text}`, todo)),
      ...facts.map((text) => ok("callback", `${source}: ${text}`)),
    ];
  } catch (error) {
    const failure = failureOf(error);
    if (!(failure instanceof CommandFailed)) throw failure;
    return [fail("callback", `${source}: ${failure.message}`, todo)];
  }
}
