import type { Command } from "commander";
import type { Answer } from "./answers.ts";
import { CommandFailed, type Io } from "./io.ts";
import { givenArgument, withRelayOptions } from "./options.ts";
import { print } from "./output.ts";
import type { OptionsOf } from "./typed.ts";

type Retried = Answer<"retried">;
type Outcome = { readonly id: string; readonly done: Retried } | { readonly id: string; readonly error: string };

/** Adds `retry`: dead letters, or any other deliveries, by id. Exit code 1 when one of them could not be. */
export function build(command: Command, io: Io): void {
  declare(command).action((ids, options) => retryDeliveries(command, ids, options, io));
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return withRelayOptions(command)
    .argument("<delivery...>", "delivery ids, as deliveries list shows them", (id, before: string[] = []) => [...before, givenArgument(id)])
    .option("--json", "print the result of each as JSON")
    .addHelpText(
      "after",
      `
If no relay runs on the SQLite file, the deliveries go out at its next start. The delivery id stays the same, so downstream
can dedupe. "replay" sends many by a filter. Exit code 1: the route of a delivery is not in the settings, or it is proxied.

States:
  dead, delivered  waits again, with all its attempts
  waiting          goes out at once
  held             stays behind the earlier delivery of its message

Examples:
  wamid-relay retry dlv_01998d3e7c1a7000800000000000002a_3c7a1014837c
  wamid-relay deliveries list --state dead --json | jq -r '.data[].id' | xargs wamid-relay retry`,
    );
}

async function retryDeliveries(command: Command, ids: readonly string[], options: Options, io: Io) {
  const { expectDone, readAnswer, withRelay } = await import("./reach-relay.ts");
  const outcomes = await withRelay(command, options, io, "replay", async (client) => {
    const each: Outcome[] = [];
    for (const id of ids) {
      const answer = await client.request("POST", `/v1/deliveries/${encodeURIComponent(id)}/retry`);
      // A delivery that cannot be retried is no reason to leave the others; a token without the scope is.
      const { error } = answer.json as { error?: unknown };
      if ((answer.status === 404 || answer.status === 409) && typeof error === "string") each.push({ id, error });
      else each.push({ id, done: readAnswer("retried", expectDone(answer)) });
    }
    return each;
  });
  const data = outcomes.map((each) => ("done" in each ? each.done : each));
  print(io, options, { data }, () => data.flatMap((each) => ("error" in each ? [] : [retriedLine(each)])));
  const failed = data.flatMap((each) => ("error" in each ? [`${each.id}: ${each.error}`] : []));
  if (failed.length > 0) throw new CommandFailed(failed.join("\n"));
}

function retriedLine({ id, route, state, previousState, stopped, pausedUntil }: Retried): string {
  const what = previousState === state ? `${state}` : `${previousState} → ${state}`;
  const wait =
    stopped !== null
      ? `; the destination is stopped (${stopped}), start it with: wamid-relay resume ${route}`
      : pausedUntil !== null
        ? `; the destination is paused until ${pausedUntil} (429), start it earlier with: wamid-relay resume ${route}`
        : state === "held"
          ? "; goes after an earlier one of its message"
          : "";
  return `${id}  ${what}${wait}`;
}
