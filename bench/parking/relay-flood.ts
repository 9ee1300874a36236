import { setTimeout as wait } from "node:timers/promises";
import { freePort } from "../../test/setup/free-port.ts";
import { wamidsOf } from "../events.ts";
import type { RunResult, RunSpec } from "../load/run.ts";
import type { Child } from "../process/start-child.ts";
import { startChild } from "../process/start-child.ts";
import { type Relay, startRelay } from "../process/start-relay.ts";
import { ratioOf, type Spread, spreadOf } from "../report.ts";

export interface RelayFloodOptions {
  readonly seconds: number;
  /** Before them, sent and not measured. */
  readonly warmupSeconds: number;
  readonly rounds: number;
  readonly connections: number;
  /** Events a second in the open loop. */
  readonly rate: number;
  readonly say: (line: string) => void;
}

/**
 * `quiet`: every message registered. `flood`: one message in ten, the others a campaign's. `after`:
 * every message registered again, while what the flood left is ended and deleted.
 */
const phases = ["quiet", "flood", "after"] as const;
type Phase = (typeof phases)[number];

export interface PhaseFigures {
  readonly perSecond: Spread;
  /** Milliseconds, at the rate offered. */
  readonly p50: Spread;
  readonly p99: Spread;
  readonly max: Spread;
}

export interface RelayFlood {
  readonly figures: Readonly<Record<Phase, PhaseFigures>>;
  readonly ratios: Readonly<Record<string, Spread>>;
}

/** Short, so that what came in during one phase is ended and purged during the next one. */
const settings = { tracking: { unknown: "park", parkFor: "1s" }, retention: { ignored: "1s" } };
const mostPerSecond = 25_000;
const knownOneIn = 10;
const restWithinMs = 300_000;

/**
 * The real relay: how fast it takes events, and how long an acknowledgement takes, beside a flood
 * of unknown ones.
 */
export async function floodRelay(options: RelayFloodOptions): Promise<RelayFlood> {
  const { rounds, say } = options;
  await using stack = new AsyncDisposableStack();
  const relay = await startRelay({
    destination: `http://127.0.0.1:${await freePort()}/`,
    concurrency: 64,
    settings,
  });
  stack.defer(() => relay.stop());
  const load = await startChild("load.ts");
  stack.defer(() => load.stop());
  const results: Record<"closed" | "open", Record<Phase, RunResult[]>> = {
    closed: { quiet: [], flood: [], after: [] },
    open: { quiet: [], flood: [], after: [] },
  };
  let run = 0;
  let known = 0;
  for (let round = 0; round < rounds; round += 1) {
    for (const loop of ["closed", "open"] as const) {
      for (const phase of phases) {
        run += 1;
        const { result, routed } = await measure(relay, load, {
          ...options,
          run,
          phase,
          rate: loop === "open" ? options.rate : null,
        });
        known += routed;
        results[loop][phase].push(result);
        const { p99, max } = result.latency;
        say(
          `${loop} loop, ${phase}: ${Math.round(result.perSecond)}/s, p99 ${p99.toFixed(2)} ms, at most ${max.toFixed(1)} ms`,
        );
      }
      await atRest(relay, known);
    }
  }
  const { closed, open } = results;
  const figures = Object.fromEntries(
    phases.map((phase) => [phase, figuresOf(closed[phase], open[phase])]),
  ) as Record<Phase, PhaseFigures>;
  const ratios: Record<string, Spread> = {};
  for (const phase of ["flood", "after"] as const) {
    ratios[`${phase}/quiet`] = ratioOf(closed[phase].map(perSecond), closed.quiet.map(perSecond));
    ratios[`p99 at ${options.rate}/s ${phase}/quiet`] = ratioOf(
      open[phase].map(p99),
      open.quiet.map(p99),
    );
  }
  return { figures, ratios };
}

interface Order extends Pick<RelayFloodOptions, "seconds" | "warmupSeconds" | "connections"> {
  readonly run: number;
  readonly phase: Phase;
  readonly rate: number | null;
}

async function measure(
  relay: Relay,
  load: Child,
  { run, phase, rate, seconds, warmupSeconds, connections }: Order,
) {
  const count = Math.ceil((rate ?? mostPerSecond) * (seconds + warmupSeconds));
  const set = { run, count };
  const wamids = wamidsOf(set);
  await load.ask({ prepare: set });
  await relay.register(
    phase === "flood" ? wamids.filter((_, message) => message % knownOneIn === 0) : wamids,
  );
  const before = (await relay.dispositions())["routed"] ?? 0;
  const spec: RunSpec = {
    port: relay.port,
    limit: count,
    connections,
    warmupMs: warmupSeconds * 1000,
    measureMs: seconds * 1000,
    rate,
    serverPid: relay.pid(),
    keepSentAt: false,
  };
  const result = (await load.ask({ run: spec })) as RunResult;
  if (result.statuses["200"] !== result.sent)
    throw new Error(`of ${result.sent} events: ${JSON.stringify(result.statuses)}`);
  const routed = ((await relay.dispositions())["routed"] ?? 0) - before;
  const least = phase === "flood" ? 0 : result.sent;
  if (routed < least)
    throw new Error(`of ${result.sent} events of known messages ${routed} were routed`);
  return { result, routed };
}

/**
 * Waits until every unknown event was ended and purged; rejects when a known one is missing then.
 */
async function atRest(relay: Relay, known: number): Promise<void> {
  const deadline = performance.now() + restWithinMs;
  for (;;) {
    const { parked = 0, ignored = 0, routed } = await relay.dispositions();
    if (routed !== known)
      throw new Error(`${known} events were routed and the file holds ${routed}`);
    // The very last event stays, so that its number is never given again.
    if (parked === 0 && ignored <= 1) return;
    if (performance.now() > deadline)
      throw new Error(`the flood is not gone: ${parked} parked, ${ignored} ignored`);
    await wait(200);
  }
}

function figuresOf(closed: readonly RunResult[], open: readonly RunResult[]): PhaseFigures {
  return {
    perSecond: spreadOf(closed.map(perSecond)),
    p50: spreadOf(open.map((result) => result.latency.p50)),
    p99: spreadOf(open.map(p99)),
    max: spreadOf(open.map((result) => result.latency.max)),
  };
}

function perSecond(result: RunResult): number {
  return result.perSecond;
}

function p99(result: RunResult): number {
  return result.latency.p99;
}
