import { path, requestFor, signatureHeader } from "../events.ts";
import type { RunResult, RunSpec } from "../load/run.ts";
import type { Child } from "../process/start-child.ts";
import type { Side } from "./sides.ts";

export interface Phase {
  /** Which events: no two phases that send to one side share a run. */
  readonly run: number;
  readonly seconds: number;
  readonly warmupSeconds: number;
  readonly connections: number;
  /** Null: closed loop. */
  readonly rate: number | null;
  /** A connection for each event. */
  readonly oneRequestEach: boolean;
}

/** How many requests a phase needs ready for the side that takes most. */
export function poolSize(phase: Phase, mostPerSecond: number): number {
  return Math.ceil((phase.rate ?? mostPerSecond) * (phase.seconds + phase.warmupSeconds));
}

/** Measures one side in one phase. Rejects when anything but 200 was answered. */
export async function measureSide(load: Child, side: Side, phase: Phase): Promise<RunResult> {
  const limit = poolSize(phase, side.mostPerSecond);
  await side.expect({ run: phase.run, count: limit });
  const spec: RunSpec = {
    port: side.port,
    limit,
    connections: phase.connections,
    oneRequestEach: phase.oneRequestEach,
    warmupMs: phase.warmupSeconds * 1000,
    measureMs: phase.seconds * 1000,
    rate: phase.rate,
    serverPid: side.pid,
    keepSentAt: false,
  };
  const result = (await load.ask({ run: spec })) as RunResult;
  const statuses = Object.keys(result.statuses);
  if (result.unanswered > 0 || statuses.length !== 1 || statuses[0] !== "200") {
    throw new Error(
      `${side.name} answered ${JSON.stringify(result.statuses)} and left ${result.unanswered} requests unanswered`,
    );
  }
  if (result.requests === 0)
    throw new Error(`${side.name} answered everything there was before the measuring began`);
  return result;
}

/**
 * Rejects unless the side refuses an event with the signature of another one: a server that
 * verifies nothing is no match.
 */
export async function refusesForgery(side: Side): Promise<void> {
  const [head, body] = requestFor(0, 0).toString().split("\r\n\r\n") as [string, string];
  const signature = new RegExp(`${signatureHeader}: (\\S+)`).exec(head)?.[1] as string;
  const answer = await fetch(`http://127.0.0.1:${side.port}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", [signatureHeader]: signature },
    body: body.replace("sent", "read"),
  });
  await answer.arrayBuffer();
  if (answer.status !== 401)
    throw new Error(`${side.name} answered ${answer.status} to a forged event`);
}
