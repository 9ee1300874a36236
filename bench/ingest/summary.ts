import type { RunResult } from "../load/run.ts";
import { ratioOf, round, type Spread, spreadOf, table } from "../report.ts";
import type { SideName } from "./sides.ts";

export interface LoopFigures {
  readonly perSecond: Spread;
  /** Milliseconds. */
  readonly p50: Spread;
  readonly p99: Spread;
  readonly max: Spread;
  /** Cores used; null where the system does not tell. */
  readonly serverCores: number | null;
  /**
   * Microseconds of the server's processor time for an event; null where the system does not tell.
   */
  readonly serverMicros: Spread | null;
  readonly loadCores: number;
}

export interface SideFigures {
  readonly closed: LoopFigures;
  readonly open: LoopFigures;
  /** The closed loop again, with a connection for each event; null when that was not measured. */
  readonly noKeepAlive: LoopFigures | null;
  /**
   * Events acknowledged in all, warm-up included; a side that stores was found to hold exactly
   * these.
   */
  readonly acknowledged: number;
}

export interface SideResults {
  readonly closed: readonly RunResult[];
  readonly open: readonly RunResult[];
  readonly noKeepAlive: readonly RunResult[];
}

type Results = ReadonlyMap<SideName, SideResults>;

export function summarise(results: Results): Partial<Record<SideName, SideFigures>> {
  const figures: Partial<Record<SideName, SideFigures>> = {};
  for (const [name, { closed, open, noKeepAlive }] of results) {
    const acknowledged = [...closed, ...open, ...noKeepAlive].reduce(
      (sum, result) => sum + result.sent,
      0,
    );
    figures[name] = {
      closed: loopFigures(closed),
      open: loopFigures(open),
      noKeepAlive: noKeepAlive.length === 0 ? null : loopFigures(noKeepAlive),
      acknowledged,
    };
  }
  return figures;
}

/**
 * The relay against each other side: events a second (more is better), p99 and the server's
 * processor time for an event (less is better; it hardly changes with what else the machine does).
 * With a connection for each event: each side against itself with keep-alive, and the relay against
 * the others.
 */
export function ratiosOf(results: Results, rate: number): Record<string, Spread> {
  const ratios: Record<string, Spread> = {};
  for (const [name, { closed, noKeepAlive }] of results) {
    if (noKeepAlive.length > 0)
      ratios[`no keep-alive/keep-alive ${name}`] = ratioOf(
        noKeepAlive.map(perSecond),
        closed.map(perSecond),
      );
  }
  for (const above of ["relay", "relay+delivery"] as const) {
    for (const below of ["bare", "fastify", "fastify+bullmq"] as const) {
      const [ours, theirs] = [results.get(above), results.get(below)];
      if (ours === undefined || theirs === undefined) continue;
      ratios[`${above}/${below}`] = ratioOf(
        ours.closed.map(perSecond),
        theirs.closed.map(perSecond),
      );
      ratios[`p99 ${above}/${below}`] = ratioOf(ours.closed.map(p99), theirs.closed.map(p99));
      const both = [ours, theirs].map(({ closed }) => closed.map(micros));
      if (both.flat().every(Number.isFinite))
        ratios[`µs each ${above}/${below}`] = ratioOf(both[0] ?? [], both[1] ?? []);
      if (ours.noKeepAlive.length > 0) {
        ratios[`no keep-alive ${above}/${below}`] = ratioOf(
          ours.noKeepAlive.map(perSecond),
          theirs.noKeepAlive.map(perSecond),
        );
      }
      ratios[`p99 at ${rate}/s ${above}/${below}`] = ratioOf(
        ours.open.map(p99),
        theirs.open.map(p99),
      );
    }
  }
  return ratios;
}

export function describe(
  figures: Partial<Record<SideName, SideFigures>>,
  { connections, rate }: { connections: number; rate: number },
): string[] {
  const bare = figures.bare?.closed.perSecond.median;
  const rows = Object.entries(figures).map(([name, { closed, open }]) => [
    name,
    `${closed.perSecond.median}`,
    `${closed.perSecond.min}–${closed.perSecond.max}`,
    bare === undefined ? "" : (closed.perSecond.median / bare).toFixed(2),
    ms(closed.p50),
    ms(closed.p99),
    closed.serverCores === null ? "?" : closed.serverCores.toFixed(2),
    closed.serverMicros === null ? "?" : closed.serverMicros.median.toFixed(0),
    closed.loadCores.toFixed(2),
    ms(open.p50),
    ms(open.p99),
    ms(open.max),
  ]);
  const head = [
    "",
    "events/s",
    "spread",
    "of bare",
    "p50 ms",
    "p99 ms",
    "its cores",
    "its µs each",
    "load's cores",
    "p50 ms",
    "p99 ms",
    "max ms",
  ];
  return [
    "",
    `Closed loop, ${connections} connections, as fast as answered; last three columns: ${rate}/s offered`,
    ...table(head, rows),
    "",
    ...describeNoKeepAlive(figures),
  ];
}

function describeNoKeepAlive(figures: Partial<Record<SideName, SideFigures>>): string[] {
  const rows = Object.entries(figures).flatMap(([name, { closed, noKeepAlive: alone }]) => {
    if (alone === null) return [];
    const { median, min, max } = alone.perSecond;
    const micros = alone.serverMicros === null ? "?" : alone.serverMicros.median.toFixed(0);
    return [
      [
        name,
        `${median}`,
        `${min}–${max}`,
        (median / closed.perSecond.median).toFixed(2),
        ms(alone.p50),
        ms(alone.p99),
        micros,
      ],
    ];
  });
  if (rows.length === 0) return [];
  const head = ["", "events/s", "spread", "of keep-alive", "p50 ms", "p99 ms", "its µs each"];
  return ["Closed loop, a connection for each event", ...table(head, rows), ""];
}

function loopFigures(results: readonly RunResult[]): LoopFigures {
  const cores = results.map((result) => result.serverCores).filter((value) => value !== null);
  return {
    perSecond: spreadOf(results.map(perSecond)),
    p50: spreadOf(results.map((result) => result.latency.p50)),
    p99: spreadOf(results.map(p99)),
    max: spreadOf(results.map((result) => result.latency.max)),
    serverCores: cores.length === 0 ? null : spreadOf(cores).median,
    serverMicros: cores.length < results.length ? null : spreadOf(results.map(micros)),
    loadCores: round(spreadOf(results.map((result) => result.loadCores)).median),
  };
}

function perSecond(result: RunResult): number {
  return result.perSecond;
}

/** Not a number where the system does not tell. */
function micros({ serverCores, perSecond: rate }: RunResult): number {
  return serverCores === null ? Number.NaN : (serverCores / rate) * 1e6;
}

function p99(result: RunResult): number {
  return result.latency.p99;
}

function ms(spread: Spread): string {
  return spread.median.toFixed(2);
}
