import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import type { DemoResult } from "./demo/run.ts";
import { type Io, interruptible } from "./io.ts";
import { choice, count } from "./options.ts";
import { print } from "./output.ts";
import { type OptionsOf, typed } from "./typed.ts";

export function build(command: Command, io: Io): void {
  declare(command).action((options) => demo(options, io));
}

function declare(command: Command) {
  return typed(command)
    .addOption(choice("--format <format>", "whose webhooks: the service's, or those of Meta's Cloud API", ["standard", "meta"], "standard"))
    .option("--seed <text>", "another seed gives other people and other faults", "demo")
    .option("--messages <count>", "messages sent through the client", count, 600)
    .option("--rate <sends>", "sends per second", count, 150)
    .option("--keep", "keep the folder with settings, database and log")
    .option("--stay", "keep the relay and its console up until Ctrl-C, also when the output is no terminal")
    .option("--json", "print the counts and checks as JSON, and no progress")
    .addHelpText(
      "after",
      `
On a terminal the relay and its console stay up until Ctrl-C. Exit code 1: the counts of client, service, relay and
downstream differ; the folder is kept.

Examples:
  wamid-relay demo
  wamid-relay demo --format meta
  wamid-relay demo --seed another --json`,
    );
}

async function demo(
  { format, seed, messages, rate, keep = false, stay = false, json = false }: OptionsOf<typeof declare>,
  io: Io,
): Promise<void> {
  const [{ runDemo, summaryLines, whatNext }, { createProgress }] = await Promise.all([
    import("./demo/run.ts"),
    import("./demo/progress.ts"),
  ]);
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-demo-"));
  using interrupted = interruptible();
  const { signal } = interrupted;
  const progress = json ? { show: () => undefined, say: () => undefined } : createProgress(io);
  const stays = stay || (io.isTerminal && !json);
  let isGood = false;
  let isReported = false;
  const report = async (result: DemoResult): Promise<void> => {
    isReported = true;
    isGood = result.checks.every((check) => check.ok);
    print(io, { json }, { ok: isGood, ...result }, () => [...summaryLines(result), ...(isGood ? whatNext : [])]);
    if (!isGood) process.exitCode = 1;
    if (stays && !signal.aborted) await once(signal, "abort");
  };
  const showConsole = stays ? (lines: readonly string[]) => lines.forEach(json ? io.err : io.out) : null;
  try {
    await runDemo({ format, seed, messages, rate, folder, signal, progress, showConsole, report });
  } catch (error) {
    if (!signal.aborted) throw error;
    // Ctrl-C is the way to leave the console; before the sums it interrupts the demo.
    if (!isReported) {
      isGood = true;
      // 128 plus the signal's number, as in shells.
      process.exitCode = signal.reason === "SIGINT" ? 130 : 143;
    }
  } finally {
    // The folder stays for debugging when the sums do not match.
    if (isGood && !keep) rmSync(folder, { recursive: true, force: true });
    else io.err(`kept: ${folder}`);
  }
}
