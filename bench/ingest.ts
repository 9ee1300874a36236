import { numberFlag, readFlags } from "./flags.ts";
import { measureSide, type Phase, poolSize, refusesForgery } from "./ingest/measure-side.ts";
import { type Side, type SideName, sideNames, startSide } from "./ingest/sides.ts";
import { describe, ratiosOf, summarise } from "./ingest/summary.ts";
import type { RunResult } from "./load/run.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { startChild } from "./process/start-child.ts";
import { printResult, spreadOf } from "./report.ts";

const usage = `Acknowledged events a second, all sides in one run: node bench/ingest.ts
  --only <names>        of ${sideNames.join(", ")} (comma between)
  --seconds <n>         measured per side and round (5)
  --rounds <n>          (3)
  --connections <n>     (64)
  --rate <n>            events a second in the open loop (5000)
  --half                the open loop at half of what relay+delivery accepts in the closed loop
  --no-keep-alive       also the closed loop with a connection for each event
  --short               one round of a fifth of a second, at 2000/s in the open loop, for CI`;

const flags = readFlags(usage, {
  only: { type: "string" },
  seconds: { type: "string" },
  rounds: { type: "string" },
  connections: { type: "string" },
  rate: { type: "string" },
  half: { type: "boolean" },
  "no-keep-alive": { type: "boolean" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const seconds = numberFlag("seconds", flags.seconds, short ? 0.2 : 5);
const warmupSeconds = short ? 0.1 : 1;
const rounds = numberFlag("rounds", flags.rounds, short ? 1 : 3);
const connections = numberFlag("connections", flags.connections, 64);
const names = sideNames.filter(
  (name) => flags.only === undefined || flags.only.split(",").includes(name),
);
if (names.length === 0) {
  console.error(`--only knows ${sideNames.join(", ")}`);
  process.exit(2);
}

const loops = {
  closed: "closed loop",
  open: "open loop",
  noKeepAlive: "closed loop, no keep-alive",
} as const;

interface Measured {
  readonly closed: RunResult[];
  readonly open: RunResult[];
  readonly noKeepAlive: RunResult[];
}

const results = new Map<SideName, Measured>(
  names.map((name) => [name, { closed: [], open: [], noKeepAlive: [] }]),
);
const acknowledged = new Map<SideName, number>();

const machine = await lookAtMachine();
console.log(describeMachine(machine));

await using stack = new AsyncDisposableStack();
const load = await startChild("load.ts");
stack.defer(() => load.stop());
const sides: Side[] = [];
for (const name of names) sides.push(await startSide(name, stack));
for (const side of sides) await refusesForgery(side);

const mostPerSecond = Math.max(...sides.map((side) => side.mostPerSecond));
for (let round = 0; round < rounds; round += 1) {
  await runRound("closed", round, {
    run: 1 + round,
    seconds,
    warmupSeconds,
    connections,
    rate: null,
    oneRequestEach: false,
  });
  if (flags["no-keep-alive"] === true) {
    await runRound("noKeepAlive", round, {
      run: 2001 + round,
      seconds,
      warmupSeconds,
      connections,
      rate: null,
      oneRequestEach: true,
    });
  }
}
const accepted = results.get("relay+delivery")?.closed.map(({ perSecond }) => perSecond) ?? [];
const half =
  flags.half === true && accepted.length > 0 ? Math.round(spreadOf(accepted).median / 2) : null;
const rate = half ?? numberFlag("rate", flags.rate, short ? 2000 : 5000);
for (let round = 0; round < rounds; round += 1) {
  await runRound("open", round, {
    run: 1001 + round,
    seconds,
    warmupSeconds,
    connections,
    rate,
    oneRequestEach: false,
  });
}

const figures = summarise(results);
for (const line of describe(figures, { connections, rate })) console.log(line);
printResult("ingest", machine, figures, ratiosOf(results, rate));

/** All sides once, with the same requests; who is first changes from round to round. */
async function runRound(loop: keyof typeof loops, round: number, phase: Phase): Promise<void> {
  await load.ask({ prepare: { run: phase.run, count: poolSize(phase, mostPerSecond) } });
  for (let place = 0; place < sides.length; place += 1) {
    const side = sides[(place + round) % sides.length] as Side;
    const result = await measureSide(load, side, phase);
    results.get(side.name)?.[loop].push(result);
    const total = (acknowledged.get(side.name) ?? 0) + result.sent;
    acknowledged.set(side.name, total);
    await side.settle?.(total);
    const found = side.settle === null ? "" : `, ${total} acknowledged in all and found again`;
    const outcome = `all answered 200${found}`;
    console.log(
      `${loops[loop]}, round ${round + 1}: ${side.name} ${Math.round(result.perSecond)}/s, p99 ${result.latency.p99.toFixed(2)} ms; ${outcome}`,
    );
  }
}
