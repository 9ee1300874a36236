import { type Command, InvalidArgumentError } from "commander";
import { type Io, stopSignal } from "./io.ts";
import { count, givenFlag, several, withRelayOptions } from "./options.ts";
import { type OptionsOf, optionOf } from "./typed.ts";

export function build(command: Command, io: Io): void {
  declare(command).action((options) => listenTo(command, options, io));
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return withRelayOptions(command)
    .option(
      "--forward-to <url>",
      "post events to this URL, or to source=URL those of one source; may be repeated (default: only show them)",
      several,
    )
    .option("--allow-remote", "let --forward-to name another machine")
    .option(
      "--events <patterns>",
      'only these event kinds, such as message.status or "message.*,automation.*"',
    )
    .option("--source <names>", "only from these sources, separated by commas")
    .option("--status <words>", "only with these statuses, such as failed,read")
    .option("--where <json>", "only events whose data meets this condition, as where of a route")
    .option("--tracked", "only about registered messages and runs")
    .option(
      "--since <time>",
      "start with the events received since then: 30m, 2h, or 2026-11-20T08:00:00Z",
    )
    .addOption(
      optionOf("--latest", "start now, whatever was missed under this name").conflicts("since"),
    )
    .option(
      "--as <name>",
      "name of a cursor: the relay stores the position, and the next listen continues there",
    )
    .option(
      "-H, --headers <header>",
      'add this header to each post, as "name: value"; may be repeated',
      header,
    )
    .option(
      "--secret <text>",
      "sign each post with this in the Standard Webhooks way, as a route's to.secret; whsec_… or plain text",
    )
    .addOption(
      optionOf(
        "--app-secret <text>",
        "sign each post with this as Meta does, as a route's to.signature; Meta's own signature does not fit an item of a larger request",
      ).conflicts("secret"),
    )
    .option(
      "--max-attempts <count>",
      "skip an event after this many answers that are not 2xx (default: never)",
      count,
    )
    .option("--show-pii", "show wamids in clear, and bodies with --json")
    .option("--json", "print a line of JSON for each thing that happens")
    .addHelpText(
      "after",
      `
Posts the received bytes with the original signature headers, one event at a time, in order. It retries until your server
answers 2xx; --max-attempts skips an event that it refuses. Ctrl-C quits. The routes of the relay are not affected.

Examples:
  wamid-relay listen --relay http://127.0.0.1:9090 --forward-to http://localhost:3000/hook --as ana
  wamid-relay listen --relay http://127.0.0.1:9090 --events "message.*" --status failed --since 2h
  wamid-relay listen --forward-to main=http://localhost:3000/hook --forward-to flows=http://localhost:3000/flows
  wamid-relay listen --json | jq -r .id`,
    );
}

async function listenTo(command: Command, options: Options, io: Io): Promise<void> {
  const {
    forwardTo = [],
    allowRemote,
    headers = {},
    secret,
    appSecret,
    events,
    status,
    where,
    tracked,
    since,
    latest,
    as,
  } = options;
  const { json = false, showPii = false, maxAttempts = null } = options;
  const wrong = (message: string): never => command.error(`error: ${message}`);
  const needing =
    forwardTo.length > 0
      ? undefined
      : givenFlag(command, options, ["headers", "secret", "appSecret", "maxAttempts"]);
  if (needing !== undefined) wrong(`${needing} is for --forward-to`);
  const [
    { queryOf },
    { failureFor },
    { createTargets },
    { relayAddress },
    { runListen },
    { printHints },
    { systemClock },
  ] = await Promise.all([
    import("../client/connection.ts"),
    import("./control-client.ts"),
    import("./listen/forward.ts"),
    import("./listen/relay.ts"),
    import("./listen/run.ts"),
    import("./hints.ts"),
    import("../model/clock.ts"),
  ]);
  const relay = await relayAddress(command, options, io);
  const targets =
    forwardTo.length === 0
      ? null
      : createTargets(
          { forwardTo, allowRemote, headers, secret, appSecret },
          systemClock.now,
          wrong,
        );
  await printHints({ event: events, status }, options, io);
  const source = options.source ?? targets?.sources?.join(",");
  await runListen(io, {
    relay,
    targets,
    query: queryOf({ events, source, status, where, tracked, since, latest, as }),
    showsSource: source === undefined,
    showsOldest: since !== undefined,
    as: as ?? null,
    maxAttempts,
    isJson: json,
    showPii,
    clock: systemClock,
    random: Math.random,
    stop: stopSignal(io.closed),
  }).catch((error: unknown) => {
    throw failureFor(command, error);
  });
}

function header(
  text: string,
  earlier: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const colon = text.indexOf(":");
  if (colon < 1) throw new InvalidArgumentError('It must be "name: value".');
  return { ...earlier, [text.slice(0, colon).trim()]: text.slice(colon + 1).trim() };
}
