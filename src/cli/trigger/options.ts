import { type Command, InvalidArgumentError } from "commander";
import { count, httpUrl, rate, withConfigOption } from "../options.ts";
import type { OptionsOf } from "../typed.ts";

export type TriggerOptions = OptionsOf<typeof declare>;

export function declare(command: Command) {
  return withConfigOption(command)
    .argument("[event]", "a fixture's name, such as message.status, or scenario")
    .argument("[name]", "the scenario's name")
    .option(
      "--source <name>",
      "the source of the settings: its path, secret and signature (default: the only one of the event's kind)",
    )
    .option(
      "--url <url>",
      "post to this URL, signed for the source, instead of to the relay of the settings",
      httpUrl,
    )
    .option("--allow-remote", "post to another machine than this one")
    .option("--fixtures <dir>", "look for fixtures here first (default: fixtures, if it exists)")
    .option(
      "--set <path=value>",
      "put this value at this path of the body, as JSON if it is JSON, else as text; may be repeated",
      set,
    )
    .option("--wamid <wamid>", "all events are about this message (default: each about its own)")
    .option(
      "--phone-number-id <id>",
      "of meta.…: the number it is for (default: the first in the source's accounts, or the fixture's)",
    )
    .option("--keep-ids", "keep the id, time, wamid and run id of the fixture")
    .option("--truncated", "send it truncated, as the service does above 256 KB")
    .option(
      "--count <number>",
      "number of events, or of messages of a scenario (default: 1, or the scenario's)",
      count,
    )
    .option("--rate <posts>", "posts per second, such as 50/s", rate)
    .option(
      "--concurrency <number>",
      "posts in flight (default: 16, or the scenario's; 1 if the order matters)",
      count,
    )
    .option(
      "--duplicate <share>",
      "post this share of events twice, such as 0.1; or each this many times more, such as 3",
      duplicate,
    )
    .option("--shuffle", "post them in another order")
    .option(
      "--seed <text>",
      "the same seed gives the same wamids, order and faults (default: others each time)",
    )
    .option("--list", "list the fixtures and scenarios")
    .option("--json", "print what was posted and answered as JSON")
    .addHelpText(
      "after",
      `
Prints a line for each post with its answer. Exit code 1: an answer is not the expected one.

Examples:
  wamid-relay trigger --list
  wamid-relay trigger message.status --set data.status=failed --set data.errorCode=131047
  wamid-relay trigger message.status --count 1000 --rate 200/s --duplicate 0.1 --shuffle
  wamid-relay trigger meta.status.failed --wamid wamid.HBgNNTQ5MTE1NTU1MDEwMBUCABEYEjNFQjBD
  wamid-relay trigger scenario campaign-burst
  wamid-relay trigger message.received --url http://localhost:3000/hook`,
    );
}

function set(text: string, before: readonly { path: string; given: string }[] = []) {
  const at = text.indexOf("=");
  const path = text.slice(0, at);
  if (at < 1 || path.split(".").includes(""))
    throw new InvalidArgumentError("It must be path=value, such as data.status=failed.");
  return [...before, { path, given: text.slice(at + 1) }];
}

/** A share of events below 1, or from 1 on how many times more each of them. */
function duplicate(text: string): number {
  const number = Number(text);
  if (
    !/^\d+(\.\d+)?$/.test(text) ||
    number <= 0 ||
    (number > 1 && !Number.isInteger(number)) ||
    number > 1000
  ) {
    throw new InvalidArgumentError(
      "It must be a share below 1, such as 0.1, or a whole number of copies of each, such as 2.",
    );
  }
  return number;
}
