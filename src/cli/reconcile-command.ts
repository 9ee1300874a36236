import type { Command } from "commander";
import type { ControlClient } from "./control-client.ts";
import { readAnswer } from "./control-views.ts";
import { CommandFailed, type Io } from "./io.ts";
import { printableJson } from "./printable.ts";
import { expectDone, type RelayOptions, withRelayOptions, withWriting } from "./reach-relay.ts";
import { createReconcileProgress } from "./reconcile/progress.ts";
import { planLines, remarks, summaryLines } from "./reconcile/report.ts";
import { type AccountPlanView, type AccountView, addUp, plannedSchema, reconciledSchema } from "./reconcile/views.ts";

interface Options extends RelayOptions {
  readonly account?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** Not all that was due was asked, and nothing is wrong but the quota. */
const leftCode = 3;

/** Adds `reconcile`: one pass over the messages whose status went quiet. */
export function addReconcileCommand(program: Command, io: Io): void {
  const reconcile = withRelayOptions(program.command("reconcile"));
  reconcile
    .description("ask the service about messages whose status went quiet, and repair what webhooks lost")
    .option("--account <name>", "this account only")
    .option("--dry-run", "only say what would be asked")
    .option("--json", "print {accounts} as JSON")
    .addHelpText(
      "after",
      `
With a relay running, it asks; without one this command does, and what it learned goes out at the next start of "serve".
Exit code 0: all that was due was asked. 1: failed, or the key is refused, or the service cannot be reached. 2: wrong
usage. 3: some was left, so that the month's quota lasts, or because it is used up.

Examples:
  wamid-relay reconcile --dry-run
  wamid-relay reconcile --account main --json
  */10 * * * * wamid-relay reconcile --config /etc/wamid-relay/relay.yaml     (a line of a crontab)`,
    )
    .action((options: Options) => reconcileNow(reconcile, options, io));
}

async function reconcileNow(command: Command, options: Options, io: Io): Promise<void> {
  const filter = options.account === undefined ? {} : { account: options.account };
  await withWriting(command, options, io, "replay", async (client) => {
    const plan = readAnswer(plannedSchema, expectDone(await client.request("POST", "/v1/reconcile", { ...filter, dryRun: true })));
    if (plan.accounts.length === 0) throw new CommandFailed("nobody can be asked: no account has baseUrl and apiKey in the settings");
    if (options.dryRun === true) {
      if (options.json === true) io.out(printableJson(plan));
      else for (const line of planLines(plan.accounts)) io.out(line);
      for (const line of remarks(plan.accounts)) io.err(line);
      return;
    }
    const accounts = await runPass(client, filter, plan, options.json === true, io);
    if (options.json === true) io.out(printableJson({ accounts }));
    else for (const line of summaryLines(accounts)) io.out(line);
    for (const line of remarks(accounts)) io.err(line);
    const changed = accounts.reduce((sum, each) => sum + each.changed, 0);
    if (client.isStore === true && changed > 0) io.err("note: no relay runs; what was learned goes out when one is started");
    const code = exitCodeOf(accounts);
    if (code !== 0) process.exitCode = code;
  });
}

async function runPass(
  client: ControlClient,
  filter: object,
  plan: { readonly dueBy: string; readonly accounts: readonly AccountPlanView[] },
  isJson: boolean,
  io: Io,
): Promise<AccountView[]> {
  const total = plan.accounts.reduce((sum, { wouldAsk }) => sum + wouldAsk, 0);
  const progress = createReconcileProgress(io, isJson, total);
  const sums = new Map<string, AccountView>();
  for (;;) {
    const step = readAnswer(reconciledSchema, expectDone(await client.request("POST", "/v1/reconcile", { ...filter, dueBy: plan.dueBy })));
    for (const each of step.accounts) sums.set(each.account, addUp(sums.get(each.account), each));
    const accounts = [...sums.values()];
    progress.show(
      accounts.reduce((sum, { asked }) => sum + asked, 0),
      !step.more,
    );
    if (!step.more) return accounts;
  }
}

function exitCodeOf(accounts: readonly AccountView[]): number {
  const reasons = accounts.map(({ stopped }) => stopped?.reason ?? null);
  if (reasons.some((reason) => reason !== null && reason !== "quota")) return 1;
  return reasons.includes("quota") || accounts.some(({ leftForBudget }) => leftForBudget > 0) ? leftCode : 0;
}
