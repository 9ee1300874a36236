import type { Command } from "commander";
import type { Answer } from "./answers.ts";
import type { ControlClient } from "./control-client.ts";
import { CommandFailed, type Io } from "./io.ts";
import { withRelayOptions } from "./options.ts";
import { print, tableLines, withCommas } from "./output.ts";
import { createProgressBar } from "./progress.ts";
import { type OptionsOf, optionOf } from "./typed.ts";

type Plan = Answer<"reconcilePlan">;
type Polled = Answer<"reconciled">["accounts"][number];

/** Adds `reconcile`: one pass over the messages whose status went quiet. */
export function build(command: Command, io: Io): void {
  declare(command).action((options) => reconcile(command, options, io));
}

type Options = OptionsOf<typeof declare>;

function declare(command: Command) {
  return withRelayOptions(command)
    .option("--account <name>", "only this account")
    .option("--dry-run", "only print what would be polled")
    .option("--json", "print {accounts} as JSON")
    .addOption(optionOf("--quiet", "print nothing unless the command fails (exit code 1)").conflicts(["dryRun", "json"]))
    .addHelpText(
      "after",
      `
The running relay polls. If none runs, this command does, and the next start of "serve" delivers what it found; over
PostgreSQL a worker delivers at once. No message is polled twice at the same time.

Exit codes:
  0  polled everything that is due
  1  failed, the service refuses the key, or it is unreachable
  3  some polls are postponed, so that the month's quota lasts, or because it is used up

Examples:
  wamid-relay reconcile --dry-run
  wamid-relay reconcile --account main --json
  */10 * * * * wamid-relay reconcile --quiet --config /etc/wamid-relay/relay.yaml     a line of a crontab`,
    );
}

/** Exit code when only the quota kept some due messages from being polled. */
const leftCode = 3;

/** One pass, with its progress and result. */
async function reconcile(command: Command, options: Options, io: Io): Promise<void> {
  const { call, withRelay } = await import("./reach-relay.ts");
  const filter = options.account === undefined ? {} : { account: options.account };
  const reconcileOn = async (client: ControlClient): Promise<void> => {
    const plan = await call(client, "reconcilePlan", "POST", "/v1/reconcile", { ...filter, dryRun: true });
    if (plan.accounts.length === 0) throw new CommandFailed("no account can be polled: none has baseUrl and apiKey in the settings");
    if (options.dryRun === true) {
      print(io, options, plan, () => planLines(plan.accounts));
      for (const line of remarks(plan.accounts)) io.err(line);
      return;
    }
    const accounts = await runPass(client, filter, plan, options.json === true || options.quiet === true, io);
    const code = exitCodeOf(accounts);
    if (code !== 0) process.exitCode = code;
    if (options.quiet === true && code !== 1) return;
    print(io, options, { accounts }, () => summaryLines(accounts));
    for (const line of remarks(accounts)) io.err(line);
    const changed = accounts.reduce((sum, each) => sum + each.changed, 0);
    if (client.isStore === true && changed > 0) io.err("note: no relay runs; what was found goes out when one is started");
  };
  await withRelay(command, options, io, "replay", reconcileOn, "service");
}

async function runPass(client: ControlClient, filter: object, plan: Plan, hidesProgress: boolean, io: Io): Promise<Polled[]> {
  const { call } = await import("./reach-relay.ts");
  const total = plan.accounts.reduce((sum, { wouldPoll }) => sum + wouldPoll, 0);
  const bar = createProgressBar(io, hidesProgress);
  const sums = new Map<string, Polled>();
  for (;;) {
    const step = await call(client, "reconciled", "POST", "/v1/reconcile", { ...filter, dueBy: plan.dueBy });
    for (const each of step.accounts) sums.set(each.account, addUp(sums.get(each.account), each));
    const accounts = [...sums.values()];
    if (!step.more) {
      bar.end();
      return accounts;
    }
    const polled = accounts.reduce((sum, each) => sum + each.polled, 0);
    bar.show(total === 0 ? 1 : polled / total, `${withCommas(polled)} of ${withCommas(total)} polled`);
  }
}

function exitCodeOf(accounts: readonly Polled[]): number {
  const reasons = accounts.map(({ stopped }) => stopped?.reason ?? null);
  if (reasons.some((reason) => reason !== null && reason !== "quota")) return 1;
  return reasons.includes("quota") || accounts.some(({ postponed }) => postponed > 0) ? leftCode : 0;
}

function summaryLines(accounts: readonly Polled[]): string[] {
  return tableLines(
    ["account", "polled", "changed", "unchanged", "missing", "failed", "postponed"],
    accounts.map(({ account, polled, changed, unchanged, missing, failed, postponed }) => [
      account,
      ...[polled, changed, unchanged, missing, failed, postponed].map(String),
    ]),
  );
}

function planLines(accounts: readonly Plan["accounts"][number][]): string[] {
  return tableLines(
    ["account", "due", "would poll", "postponed"],
    accounts.map(({ account, due, wouldPoll, postponed }) => [account, atLeast(due), String(wouldPoll), atLeast(postponed)]),
  );
}

const stops: Readonly<Record<string, string>> = {
  unauthenticated: "the service refuses the API key",
  quota: "the month's quota is used up",
  blocked: "the service has blocked this address because of bad keys",
  unreachable: "the service cannot be reached",
  refused: "the service refuses polls",
  unreadable: "the service's answers cannot be read; is baseUrl right?",
  "not-found": "the service answers 404 to every poll; are baseUrl and apiKey of this account, and the ids of this service?",
};

/** Counts stop here (docs/reference/endpoints.md, "POST /v1/reconcile"). */
const mostCounted = 20_000;

function atLeast(count: number): string {
  return count >= mostCounted ? `${mostCounted} or more` : String(count);
}

/** Notes for the user, a line each. */
function remarks(accounts: readonly (Polled | Plan["accounts"][number])[]): string[] {
  return accounts.flatMap(({ account: name, stopped, postponed, lastsUntil, unpollable }) => {
    const account = name;
    const until = stopped?.until == null ? "" : ` until ${stopped.until}`;
    const detail = stopped?.detail === undefined ? "" : ` (${stopped.detail})`;
    return [
      ...(stopped === null ? [] : [`${account}: stopped: ${stops[stopped.reason] ?? stopped.reason}${detail}${until}`]),
      ...(postponed === 0
        ? []
        : [
            `${account}: ${atLeast(postponed)} polls wait so that the month's quota lasts${
              lastsUntil === null ? "" : `; polled at this rate, it would last until ${lastsUntil.slice(0, 10)}`
            }`,
          ]),
      ...(unpollable === 0 ? [] : [`${account}: ${atLeast(unpollable)} open messages are known by wamid alone and cannot be polled`]),
    ];
  });
}

/** Merges two steps of a pass over one account: counts add up, the rest is as in the later step. */
function addUp(before: Polled | undefined, step: Polled): Polled {
  if (before === undefined) return step;
  const counts = ["polled", "changed", "unchanged", "missing", "failed"] as const;
  return { ...step, ...Object.fromEntries(counts.map((name) => [name, before[name] + step[name]])) };
}
