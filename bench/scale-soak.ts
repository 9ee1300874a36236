import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { numberFlag, readFlags } from "./flags.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { printResult, spreadOf } from "./report.ts";

const usage = `Two receivers, three workers and Redis killed at random under load, for long: node bench/scale-soak.ts
  --passes <n>   each with processes, a Redis and a seed of its own (5)
  --rounds <n>   of kills in each (60)
  --seed <n>     of the first pass, as its output names it; not given: a new one
  --short        one pass of 4 rounds, for CI`;

const flags = readFlags(usage, {
  passes: { type: "string" },
  rounds: { type: "string" },
  seed: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const passes = Math.ceil(numberFlag("passes", flags.passes, short ? 1 : 5));
const rounds = Math.ceil(numberFlag("rounds", flags.rounds, short ? 4 : 60));

/** What test/e2e/scale-kill9.test.ts says of a run in which everything held. */
interface Report {
  readonly acknowledged: number;
  readonly killed: { readonly receive: number; readonly work: number; readonly redis: number };
  readonly healedMs: readonly number[];
  readonly arrivals: number;
  readonly repeats: number;
  readonly settledMs: number;
}

const root = fileURLToPath(new URL("..", import.meta.url));
const vitest = join(createRequire(import.meta.url).resolve("vitest/package.json"), "../vitest.mjs");

/** Rejects when anything did not hold: the test has said what. */
async function runPass(seed: number, folder: string): Promise<Report> {
  const report = join(folder, "report.json");
  const child = spawn(process.execPath, [vitest, "run", "--config", "test/vitest.config.ts", "test/e2e/scale-kill9.test.ts"], {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, SCALE_ROUNDS: String(rounds), TEST_SEED: String(seed), SCALE_REPORT: report },
  });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`not everything held with TEST_SEED=${seed}: see above`);
  return JSON.parse(readFileSync(report, "utf8")) as Report;
}

const machine = await lookAtMachine();
console.log(describeMachine(machine));
const folder = mkdtempSync(join(tmpdir(), "wamid-relay-soak-"));
const first = flags.seed === undefined ? randomInt(2 ** 31) : numberFlag("seed", flags.seed, 1);
const reports: Report[] = [];
try {
  for (let pass = 0; pass < passes; pass += 1) reports.push(await runPass(first + pass, folder));
} finally {
  rmSync(folder, { recursive: true, force: true });
}
const sum = (count: (report: Report) => number) => reports.reduce((all, report) => all + count(report), 0);
const figures = {
  acknowledged: sum(({ acknowledged }) => acknowledged),
  killed: {
    receivers: sum(({ killed }) => killed.receive),
    workers: sum(({ killed }) => killed.work),
    redis: sum(({ killed }) => killed.redis),
  },
  arrivals: sum(({ arrivals }) => arrivals),
  repeats: sum(({ repeats }) => repeats),
  takenAgainMs: spreadOf(reports.flatMap(({ healedMs }) => healedMs)),
  settledMs: spreadOf(reports.map(({ settledMs }) => settledMs)),
};
printResult("scale-soak", machine, figures, { "repeats/arrivals": figures.repeats / figures.arrivals });
