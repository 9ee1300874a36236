import { mkdtempSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { type Latency, latencyOf } from "./load/measure.ts";
import { round } from "./report.ts";

/** What the figures of a run rest on besides the programs. */
export interface Machine {
  readonly node: string;
  readonly cores: number;
  /** Processes that wanted a core, over the last minute before the run: what else was going on. */
  readonly busy: number;
  /**
   * Milliseconds to write 20 KB and have it on disk, where the relay's file will be: the price of
   * each commit.
   */
  readonly syncMs: Latency;
}

const writes = 100;
/** What a commit of a few dozen events writes. */
const bytes = 20_000;

/** Looked at before the run: during it, the run itself would be what is seen. */
export async function lookAtMachine(): Promise<Machine> {
  const { p50, p99, max } = latencyOf(await syncTimes());
  return {
    node: process.versions.node,
    cores: availableParallelism(),
    busy: round(loadavg()[0] as number),
    syncMs: { p50: round(p50), p99: round(p99), max: round(max) },
  };
}

export function describeMachine({ node, cores, busy, syncMs }: Machine): string {
  return `Node ${node}, ${cores} cores, load average ${busy} before the run; 20 KB to disk: p50 ${syncMs.p50} ms, p99 ${syncMs.p99} ms`;
}

async function syncTimes(): Promise<Float64Array> {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-bench-"));
  const block = Buffer.alloc(bytes, 1);
  const times = new Float64Array(writes);
  try {
    await using file = await open(join(folder, "sync"), "w");
    for (let index = 0; index < writes; index += 1) {
      const before = performance.now();
      await file.write(block);
      await file.datasync();
      times[index] = performance.now() - before;
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  return times;
}
