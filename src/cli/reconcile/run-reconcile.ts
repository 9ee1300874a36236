import type { Command } from "commander";
import type { ControlClient } from "../control-client.ts";
import { readAnswer } from "../control-views.ts";
import { CommandFailed, type Io } from "../io.ts";
import { printableJson } from "../output.ts";
import { expectDone, withWriting } from "../reach-relay.ts";
import type { ReconcileOptions } from "../reconcile-command.ts";
import { createReconcileProgress } from "./progress.ts";
import { planLines, remarks, summaryLines } from "./report.ts";
import { type AccountPlanView, type AccountView, addUp, plannedSchema, reconciledSchema } from "./views.ts";

/** Not all that was due was asked, and nothing is wrong but the quota. */
const leftCode = 3;

/** One pass, with its progress and what came of it. */
export async function runReconcile(command: Command, options: ReconcileOptions, io: Io): Promise<void> {
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
