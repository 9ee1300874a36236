import type { Command } from "commander";
import { CommandFailed, type Io } from "./io.ts";
import { givenFlag } from "./options.ts";
import { counted, print, secondsText } from "./output.ts";
import { declare, type TriggerOptions } from "./trigger/options.ts";

export function build(command: Command, io: Io): void {
  declare(command).action((event, name, options) => trigger(command, event, name, options, io));
}

const ofFixturesOnly = [
  "set",
  "wamid",
  "phoneNumberId",
  "keepIds",
  "truncated",
  "duplicate",
  "shuffle",
] as const;

async function trigger(
  command: Command,
  event: string | undefined,
  name: string | undefined,
  options: TriggerOptions,
  io: Io,
): Promise<void> {
  const { listed, listLines, runTrigger } = await import("./trigger/run.ts");
  if (options.list === true) {
    print(io, options, listed(options.fixtures), listLines);
    return;
  }
  const wrong = (message: string): never => command.error(`error: ${message}`);
  if (event === undefined)
    return wrong("say which event, such as message.status; --list shows all");
  const isScenario = event === "scenario";
  if (isScenario && name === undefined)
    wrong("say which scenario, such as campaign-burst; --list shows all");
  if (!isScenario && name !== undefined)
    wrong(`too many arguments; one event at a time, or: scenario ${name}`);
  const flag = givenFlag(command, options, ofFixturesOnly);
  if (isScenario && flag !== undefined) wrong(`${flag} is for events; a scenario has its own`);
  const outcome = await runTrigger(
    command,
    isScenario ? { scenario: name as string } : { fixture: event },
    options,
    io,
  );
  const { url, posts, answers, unexpected, faults, tookMs, stopped } = outcome;
  const counts = Object.entries(answers).map(([answer, times]) => `${times} ${answer}`);
  print(io, options, outcome, () => [
    `${counted(posts, "post")} in ${secondsText(tookMs)}${counts.length === 0 ? "" : `: ${counts.join(", ")}`}`,
  ]);
  if (unexpected > 0) {
    for (const fault of faults.slice(0, 20)) io.err(`not as expected: ${fault}`);
    if (faults.some((fault) => fault.includes("ECONNREFUSED")))
      throw new CommandFailed(
        `nothing listens at ${url}${options.url === undefined ? ': start the relay with "wamid-relay serve"' : ""}`,
      );
    throw new CommandFailed(`${counted(unexpected, "answer")} not as expected`);
  }
  if (stopped) throw new CommandFailed("stopped before the end");
}
