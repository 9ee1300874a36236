import { freePort } from "../test/setup/free-port.ts";
import { type EventSet, wamidsOf } from "./events.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { measureSide, type Phase, poolSize } from "./ingest/measure-side.ts";
import type { Side } from "./ingest/sides.ts";
import type { RunResult } from "./load/run.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { startRelay } from "./process/start-relay.ts";
import { printResult, ratioOf, spreadOf } from "./report.ts";

const usage = `What the history costs receiving, both sides in one run: node bench/history.ts
  --without <path>  the wamid-relay.js of a checkout that keeps no history, or another commit (default: this one again)
  --seconds <n>     measured per side and round (5)
  --rounds <n>      (5)
  --short           one round of a fifth of a second, for CI`;

const flags = readFlags(usage, {
  without: { type: "string" },
  seconds: { type: "string" },
  rounds: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const seconds = numberFlag("seconds", flags.seconds, short ? 0.2 : 5);
const rounds = numberFlag("rounds", flags.rounds, short ? 1 : 5);
const mostPerSecond = 25_000;

const machine = await lookAtMachine();
console.log(describeMachine(machine));

await using stack = new AsyncDisposableStack();
const load = await startChild("load.ts");
stack.defer(() => load.stop());
const sides = [await open("with", undefined), await open("without", flags.without)];
const results: Record<string, RunResult[]> = { with: [], without: [] };

for (let round = 0; round < rounds; round += 1) {
  const phase: Phase = {
    run: 1 + round,
    seconds,
    warmupSeconds: short ? 0.1 : 1,
    connections: 64,
    rate: null,
    oneRequestEach: false,
  };
  await load.ask({ prepare: { run: phase.run, count: poolSize(phase, mostPerSecond) } });
  for (const { name, side } of round % 2 === 0 ? sides : sides.toReversed()) {
    const result = await measureSide(load, side, phase);
    results[name]?.push(result);
    console.log(
      `round ${round + 1}, ${name} history: ${Math.round(result.perSecond)}/s, p99 ${result.latency.p99.toFixed(2)} ms`,
    );
  }
}

const perSecond = (name: string) => (results[name] ?? []).map((result) => result.perSecond);
/**
 * Microseconds of the server's processor time for an event: other work on the machine hardly
 * changes it.
 */
const micros = (name: string) =>
  (results[name] ?? []).map(
    ({ serverCores, perSecond: rate }) => ((serverCores ?? Number.NaN) / rate) * 1e6,
  );
const p99 = (name: string) => (results[name] ?? []).map(({ latency }) => latency.p99);
const names = ["with", "without"] as const;
const figures = Object.fromEntries(
  names.map((name) => [name, { perSecond: spreadOf(perSecond(name)), p99: spreadOf(p99(name)) }]),
);
printResult("history", machine, figures, {
  "with/without": ratioOf(perSecond("with"), perSecond("without")),
  "µs each with/without": ratioOf(micros("with"), micros("without")),
  "p99 with/without": ratioOf(p99("with"), p99("without")),
});

/** The destination cannot be reached, so that nothing but receiving goes on. */
async function open(
  name: (typeof names)[number],
  command: string | undefined,
): Promise<{ readonly name: string; readonly side: Side }> {
  const relay = await startRelay({
    destination: `http://127.0.0.1:${await freePort()}/events`,
    concurrency: 64,
    command,
  });
  stack.defer(() => relay.stop());
  const expect = (set: EventSet) => relay.register(wamidsOf(set));
  return {
    name,
    side: {
      name: "relay",
      port: relay.port,
      pid: relay.pid(),
      mostPerSecond,
      expect,
      settle: null,
    },
  };
}
