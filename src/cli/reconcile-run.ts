import type { Command } from "commander";
import { z } from "zod";
import type { ControlClient } from "./control-client.ts";
import { readAnswer } from "./control-views.ts";
import { CommandFailed, type Io } from "./io.ts";
import { printable, printableJson, tableLines, withCommas } from "./output.ts";
import { barText, createDrawnLine } from "./progress.ts";
import { expectDone, withWriting } from "./reach-relay.ts";
import type { ReconcileOptions } from "./reconcile.ts";

/** Exit code when only the quota kept some due messages from being polled. */
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
  const show = createPassProgress(io, isJson, total);
  const sums = new Map<string, AccountView>();
  for (;;) {
    const step = readAnswer(reconciledSchema, expectDone(await client.request("POST", "/v1/reconcile", { ...filter, dueBy: plan.dueBy })));
    for (const each of step.accounts) sums.set(each.account, addUp(sums.get(each.account), each));
    const accounts = [...sums.values()];
    show(
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

function summaryLines(accounts: readonly AccountView[]): string[] {
  return tableLines(
    ["account", "asked", "changed", "unchanged", "missing", "failed", "left for budget"],
    accounts.map(({ account, asked, changed, unchanged, missing, failed, leftForBudget }) => [
      account,
      ...[asked, changed, unchanged, missing, failed, leftForBudget].map(String),
    ]),
  );
}

function planLines(accounts: readonly AccountPlanView[]): string[] {
  return tableLines(
    ["account", "due", "would ask", "left for budget"],
    accounts.map(({ account, due, wouldAsk, leftForBudget }) => [account, atLeast(due), String(wouldAsk), atLeast(leftForBudget)]),
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

/** Counts stop here (docs/endpoints.md, "POST /v1/reconcile"). */
const mostCounted = 20_000;

function atLeast(count: number): string {
  return count >= mostCounted ? `${mostCounted} or more` : String(count);
}

/** Notes for the user, a line each. */
function remarks(accounts: readonly (AccountView | AccountPlanView)[]): string[] {
  return accounts.flatMap(({ account: name, stopped, leftForBudget, lastsUntil, unaskable }) => {
    const account = printable(name);
    const until = stopped?.until == null ? "" : ` until ${printable(stopped.until)}`;
    const detail = stopped?.detail === undefined ? "" : ` (${printable(stopped.detail)})`;
    return [
      ...(stopped === null ? [] : [`${account}: stopped: ${stops[stopped.reason] ?? printable(stopped.reason)}${detail}${until}`]),
      ...(leftForBudget === 0
        ? []
        : [
            `${account}: ${atLeast(leftForBudget)} questions wait so that the month's quota lasts${
              lastsUntil === null ? "" : `; asked at this rate, it would last until ${printable(lastsUntil.slice(0, 10))}`
            }`,
          ]),
      ...(unaskable === 0
        ? []
        : [`${account}: ${atLeast(unaskable)} open messages are known by wamid alone, and nobody can ask about them`]),
    ];
  });
}

/**
 * A bar that is drawn over itself on a terminal; in a pipe, and with `--json`, a plain line on standard error. Each step takes
 * some seconds, so each is shown, except for the only one of a short pass.
 */
function createPassProgress(io: Io, isJson: boolean, total: number): (asked: number, isLast: boolean) => void {
  const line = createDrawnLine(io);
  return (asked, isLast) => {
    if (isLast && !line.isDrawn()) return;
    const text = `${withCommas(asked)} of ${withCommas(total)} asked`;
    if (io.isTerminal && !isJson) line.draw(`${barText(total === 0 ? 1 : asked / total)} ${text}`);
    else io.err(text);
  };
}

const stopped = z.looseObject({ reason: z.string(), until: z.string().nullable(), detail: z.string().optional() }).nullable();
const common = {
  account: z.string(),
  leftForBudget: z.number(),
  unaskable: z.number(),
  missing: z.number(),
  stopped,
  lastsUntil: z.string().nullable(),
};

const accountSchema = z.looseObject({ ...common, asked: z.number(), changed: z.number(), unchanged: z.number(), failed: z.number() });
type AccountView = z.infer<typeof accountSchema>;

const accountPlanSchema = z.looseObject({ ...common, due: z.number(), wouldAsk: z.number() });
type AccountPlanView = z.infer<typeof accountPlanSchema>;

const reconciledSchema = z.looseObject({ dueBy: z.string(), more: z.boolean(), accounts: z.array(accountSchema) });
const plannedSchema = z.looseObject({ dueBy: z.string(), accounts: z.array(accountPlanSchema) });

/** Merges two steps of a pass over one account: counts add up, the rest is as in the later step. */
function addUp(before: AccountView | undefined, step: AccountView): AccountView {
  if (before === undefined) return step;
  const counts = ["asked", "changed", "unchanged", "missing", "failed"] as const;
  return { ...step, ...Object.fromEntries(counts.map((name) => [name, before[name] + step[name]])) };
}
