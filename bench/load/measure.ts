import { readdirSync, readFileSync } from "node:fs";

/** Times in milliseconds. */
export interface Latency {
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/** Every single time is kept and sorted: exact, and cheap for the few hundred thousand of a run. */
export function latencyOf(times: Float64Array): Latency {
  const sorted = times.toSorted();
  return { p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99), max: quantile(sorted, 1) };
}

/** Nearest rank; NaN of nothing. */
export function quantile(sorted: ArrayLike<number>, share: number): number {
  if (sorted.length === 0) return Number.NaN;
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] as number;
}

/**
 * Seconds of processor time (user and system) a process has used; null where /proc is not there.
 */
export function processorSeconds(pid: number): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The second field is the program's name and may hold spaces: count from its closing bracket.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    // Fields 14 and 15 of proc(5), in ticks; a tick is 10 ms on every Linux that Node runs on.
    return (Number(fields[11]) + Number(fields[12])) / 100;
  } catch {
    return null;
  }
}

/** Seconds of processor time of a process and its children, those that have ended included. */
export function familySeconds(parent: number): number {
  let ticks = 0;
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
      // From the third field of proc(5) on: state, parent, …, its time (14, 15), that of its ended
      // children (16, 17).
      const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      const own = Number(fields[11]) + Number(fields[12]);
      if (Number(pid) === parent) ticks += own + Number(fields[13]) + Number(fields[14]);
      else if (Number(fields[1]) === parent) ticks += own;
    } catch {
      // It has ended meanwhile.
    }
  }
  return ticks / 100;
}

/**
 * Seconds that a process's main thread was ready to run and had no processor, because others had
 * it; null where /proc does not tell.
 */
export function waitedSeconds(pid: number): number | null {
  try {
    // Nanoseconds on a processor, nanoseconds waiting for one, turns
    // (Documentation/scheduler/sched-stats).
    return Number(readFileSync(`/proc/${pid}/schedstat`, "latin1").split(" ")[1]) / 1e9;
  } catch {
    return null;
  }
}

/** Resident memory of a process in MiB; null where /proc is not there or the process is gone. */
export function residentMiB(pid: number): number | null {
  try {
    const kib = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"));
    return kib === null ? null : Number(kib[1]) / 1024;
  } catch {
    return null;
  }
}
