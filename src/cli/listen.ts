import { randomBytes } from "node:crypto";
import { type Command, InvalidArgumentError } from "commander";
import { type Io, stopSignal } from "./io.ts";
import { count, several, withRelayOptions } from "./options.ts";
import { type OptionsOf, optionOf } from "./typed.ts";

export function build(command: Command, io: Io): void {
  declare(command).action((options) => listenTo(command, options, io));
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return withRelayOptions(command)
    .option("--forward-to <url>", "post events to this URL, or to source=URL those of one source; may be repeated", several, [])
    .option("--no-forward", "only show events")
    .option("--allow-remote", "let --forward-to name another machine")
    .option("--events <patterns>", 'only these event kinds, such as message.status or "message.*,automation.*"')
    .option("--source <names>", "only from these sources, separated by commas")
    .option("--status <words>", "only with these statuses, such as failed,read")
    .option("--where <json>", "only events whose data meets this condition, as where of a route", jsonText)
    .option("--tracked", "only about registered messages and runs")
    .option("--since <time>", "start with the events received since then: 30m, 2h, or 2026-11-20T08:00:00Z")
    .addOption(optionOf("--latest", "start now, whatever was missed under this name").conflicts("since"))
    .option("--as <name>", "name of a cursor: the relay stores the position, and the next listen continues there", name)
    .option("-H, --headers <header>", 'add this header to each post, as "name: value"; may be repeated', header, {})
    .option("--secret <text>", "sign each post with this in the Standard Webhooks way, as a route's to.secret; whsec_… or plain text")
    .option("--print-secret", "sign with a secret made for this run, and print it")
    .option("--max-attempts <count>", "skip an event after this many answers that are not 2xx (default: never)", count)
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
  wamid-relay listen --no-forward --json | jq -r .id`,
    );
}

async function listenTo(command: Command, options: Options, io: Io): Promise<void> {
  const { forwardTo, forward, headers } = options;
  const wrong = (message: string): never => command.error(`error: ${message}`);
  const { checkedSince, relayAddress } = await import("./listen/relay.ts");
  const since = options.since === undefined ? null : checkedSince(command, options.since);
  if (!forward && forwardTo.length > 0) wrong("--no-forward and --forward-to exclude each other");
  if (options.printSecret === true && options.secret !== undefined) wrong("--print-secret makes a secret, --secret gives one");
  if (forwardTo.length === 0) {
    for (const [flag, given] of [
      ["--headers", Object.keys(headers).length > 0],
      ["--secret", options.secret !== undefined],
      ["--print-secret", options.printSecret === true],
      ["--max-attempts", options.maxAttempts !== undefined],
    ] as const)
      if (given) wrong(`${flag} is for --forward-to`);
  }
  const secret = options.printSecret === true ? `whsec_${randomBytes(24).toString("base64")}` : (options.secret ?? null);
  const relay = await relayAddress(command, options, io);

  const [{ queryOf }, { createTargets }, { runListen }, { systemClock }] = await Promise.all([
    import("../client/connection.ts"),
    import("./listen/forward.ts"),
    import("./listen/run.ts"),
    import("../model/system-clock.ts"),
  ]);
  const targets = (() => {
    if (forwardTo.length === 0) return null;
    try {
      return createTargets({ forwardTo, allowRemote: options.allowRemote === true, headers, secret }, systemClock.now);
    } catch (error) {
      return wrong((error as Error).message);
    }
  })();

  if (options.printSecret === true)
    io.out(options.json === true ? JSON.stringify({ type: "secret", secret }) : `posts are signed with ${secret}`);
  const { printHints } = await import("./hints.ts");
  await printHints({ event: options.events, status: options.status }, options, io);
  const stop = stopSignal();
  const { events, status, where, tracked, latest, as } = options;
  const source = options.source ?? targets?.sources?.join(",");
  await runListen(io, {
    relay,
    targets,
    query: queryOf({
      events,
      source,
      status,
      where,
      tracked,
      since: typeof since === "number" ? `${since}ms` : (since ?? undefined),
      latest,
      as,
    }),
    showSource: source === undefined,
    as: as ?? null,
    since: typeof since === "number" ? Date.now() - since : since === null ? null : Date.parse(since),
    maxAttempts: options.maxAttempts ?? null,
    isJson: options.json === true,
    showPii: options.showPii === true,
    clock: systemClock,
    random: Math.random,
    stop,
  });
}

function name(text: string): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text))
    throw new InvalidArgumentError("It must be a name: letters, digits, . _ -, at most 64.");
  return text;
}

function jsonText(text: string): string {
  try {
    JSON.parse(text);
    return text;
  } catch {
    throw new InvalidArgumentError('It must be JSON, such as {"errorCode":"131026"}.');
  }
}

function header(text: string, earlier: Readonly<Record<string, string>>): Record<string, string> {
  const colon = text.indexOf(":");
  if (colon < 1) throw new InvalidArgumentError('It must be "name: value".');
  return { ...earlier, [text.slice(0, colon).trim()]: text.slice(colon + 1).trim() };
}
