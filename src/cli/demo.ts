import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { type Io, stopSignal } from "./io.ts";
import { choice, count } from "./options.ts";
import { type OptionsOf, typed } from "./typed.ts";

export function build(command: Command, io: Io): void {
  declare(command).action((options) => demo(options, io));
}

function declare(command: Command) {
  return typed(command)
    .addOption(
      choice(
        "--format <format>",
        "whose webhooks: the service's, or those of Meta's Cloud API",
        ["standard", "meta"],
        "standard",
      ),
    )
    .option("--seed <text>", "another seed gives other people and other faults", "demo")
    .option("--messages <count>", "messages sent through the client", count, 600)
    .option("--rate <sends>", "sends per second", count, 150)
    .option("--keep", "keep the folder with settings, database and log")
    .option(
      "--stay",
      "keep the relay and its console up until Ctrl-C, also when the output is no terminal",
    )
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
  { keep = false, stay = false, json = false, ...order }: OptionsOf<typeof declare>,
  io: Io,
): Promise<void> {
  const { runDemo } = await import("./demo/run.ts");
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-demo-"));
  const signal = stopSignal();
  // The folder stays for debugging when the sums do not match.
  let isKept = true;
  try {
    isKept = !(await runDemo(
      { ...order, stays: stay || (io.isTerminal && !json), json, folder, signal },
      io,
    ));
    if (isKept) process.exitCode = 1;
  } catch (error) {
    if (!signal.aborted) throw error;
    isKept = false;
    // 128 plus the signal's number, as in shells.
    process.exitCode = signal.reason === "SIGINT" ? 130 : 143;
  } finally {
    if (isKept || keep) io.err(`kept: ${folder}`);
    else rmSync(folder, { recursive: true, force: true });
  }
}
