import type { Command } from "commander";
import type { AccountPlan, AccountReconciled } from "../client/relay-client.ts";
import { CommandFailed, type Io } from "./io.ts";
import { withRelayOptions } from "./options.ts";
import { print, tableLines, withCommas } from "./output.ts";
import { createProgressBar } from "./progress.ts";
import { noteWithoutRelay, withRelay } from "./relay.ts";
import { optionOf } from "./typed.ts";

export function build(command: Command, io: Io): void {
  withRelayOptions(command)
    .option("--account <name>", "only this account")
    .option("--dry-run", "only print what would be polled")
    .option("--json", "print {accounts} as JSON")
    .addOption(
      optionOf("--quiet", "print nothing unless the command fails (exit code 1)").conflicts([
        "dryRun",
        "json",
      ]),
    )
    .addHelpText(
      "after",
      `
The running relay polls. If none runs, this command does, and the next start of "serve" delivers what it found; over
PostgreSQL a worker delivers at once. No message is polled twice at the same time. On SQLite, a relay that starts
takes over.

Exit codes:
  0  polled everything that is due
  1  failed, the service refuses the key, or it is unreachable
  3  some polls are postponed, so that the month's quota lasts, or because it is used up

Examples:
  wamid-relay reconcile --dry-run
  wamid-relay reconcile --account main --json
  */10 * * * * wamid-relay reconcile --quiet --config /etc/wamid-relay/relay.yaml     a line of a crontab`,
    )
    .action(async (options) => {
      const { account, json, quiet = false } = options;
      await withRelay(
        command,
        options,
        io,
        "replay",
        async (client) => {
          const plan = await client.planReconcile({ account });
          if (plan.accounts.length === 0)
            throw new CommandFailed(
              "no account can be polled: none has baseUrl and apiKey in the settings",
            );
          if (options.dryRun === true) {
            print(io, options, plan, () => planLines(plan.accounts));
            for (const line of remarks(plan.accounts)) io.err(line);
            return;
          }
          const total = plan.accounts.reduce((sum, { wouldPoll }) => sum + wouldPoll, 0);
          const bar = createProgressBar(io, json === true);
          const onProgress = (polled: number) =>
            bar.show(
              total === 0 ? 1 : polled / total,
              `${withCommas(polled)} of ${withCommas(total)} polled`,
            );
          const accounts = await client.reconcile(
            { account, dueBy: plan.dueBy },
            { signal: client.wanted, ...(quiet ? {} : { onProgress }) },
          );
          bar.end();
          const code = exitCodeOf(accounts);
          if (code !== 0) process.exitCode = code;
          if (quiet && code !== 1) return;
          print(io, options, { accounts }, () => summaryLines(accounts));
          for (const line of remarks(accounts)) io.err(line);
          for (const each of accounts.filter(hasOnlyFailures))
            io.err(
              `${each.account}: every poll failed; "wamid-relay doctor" calls the service and names the fault`,
            );
          if (client.wanted?.aborted === true)
            io.err("note: ended early: a relay starts with this store, and polls the rest");
          else if (accounts.some(({ changed }) => changed > 0)) noteWithoutRelay(client, io);
        },
        "service",
      );
    });
}

/** A pass stops after several failures in a row, so one with few polls ends without. */
const hasOnlyFailures = ({ stopped, polled, failed }: AccountReconciled): boolean =>
  stopped === null && polled > 0 && failed === polled;

function exitCodeOf(accounts: readonly AccountReconciled[]): number {
  const reasons = accounts.map(({ stopped }) => stopped?.reason ?? null);
  if (
    accounts.some(hasOnlyFailures) ||
    reasons.some((reason) => reason !== null && reason !== "quota")
  )
    return 1;
  // Some polls are postponed.
  return reasons.includes("quota") || accounts.some(({ postponed }) => postponed > 0) ? 3 : 0;
}

function summaryLines(accounts: readonly AccountReconciled[]): string[] {
  const words = [
    "account",
    "polled",
    "changed",
    "unchanged",
    "missing",
    "failed",
    "postponed",
  ] as const;
  return tableLines(
    accounts,
    Object.fromEntries(words.map((word) => [word, (account) => account[word]])),
  );
}

function planLines(accounts: readonly AccountPlan[]): string[] {
  return tableLines(accounts, {
    account: ({ account }) => account,
    due: ({ due }) => atLeast(due),
    "would poll": ({ wouldPoll }) => wouldPoll,
    postponed: ({ postponed }) => atLeast(postponed),
  });
}

const stops: Readonly<Record<string, string>> = {
  unauthenticated: "the service refuses the API key",
  quota: "the month's quota is used up",
  blocked: "the service has blocked this address because of bad keys",
  unreachable: "the service cannot be reached",
  refused: "the service refuses polls",
  unreadable: "the service's answers cannot be read; is baseUrl right?",
  "not-found":
    "the service answers 404 to every poll; are baseUrl and apiKey of this account, and the ids of this service?",
};

/** Counts stop here (docs/reference/endpoints.md, "POST /v1/reconcile"). */
const mostCounted = 20_000;

function atLeast(count: number): string {
  return count >= mostCounted ? `${mostCounted} or more` : String(count);
}

function remarks(accounts: readonly (AccountReconciled | AccountPlan)[]): string[] {
  return accounts.flatMap(({ account, stopped, postponed, lastsUntil, unpollable }) => {
    const until = stopped?.until == null ? "" : ` until ${stopped.until}`;
    const lasts =
      lastsUntil === null
        ? ""
        : `; polled at this rate, it would last until ${lastsUntil.slice(0, 10)}`;
    const detail = stopped?.detail === undefined ? "" : ` (${stopped.detail})`;
    return [
      ...(stopped === null
        ? []
        : [`${account}: stopped: ${stops[stopped.reason] ?? stopped.reason}${detail}${until}`]),
      ...(postponed === 0
        ? []
        : [`${account}: ${atLeast(postponed)} polls wait so that the month's quota lasts${lasts}`]),
      ...(unpollable === 0
        ? []
        : [
            `${account}: ${atLeast(unpollable)} open messages are known by wamid alone and cannot be polled`,
          ]),
    ];
  });
}
