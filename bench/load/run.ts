import { Connection } from "./connection.ts";
import { type Latency, latencyOf, processorSeconds } from "./measure.ts";
import type { RequestPool } from "./pool.ts";

export interface RunSpec {
  readonly port: number;
  /** How many of the pool's requests may be sent at most. */
  readonly limit: number;
  readonly connections: number;
  /**
   * A connection for each request, as senders without keep-alive open one; not given: each
   * connection carries many.
   */
  readonly oneRequestEach?: boolean;
  /** Sent and counted, but not measured, before the measuring starts. */
  readonly warmupMs: number;
  /** How long is measured; null: until the limit is reached. */
  readonly measureMs: number | null;
  /**
   * Open loop: requests offered a second, come what may. Null is the closed loop: each connection
   * sends again once answered.
   */
  readonly rate: number | null;
  /**
   * In the open loop: sleep between requests, to leave the processors to the server. Requests are
   * then sent up to a millisecond late, and measured from the moment they are sent, unless all
   * connections were busy. Not given: spin.
   */
  readonly sleeps?: boolean;
  /** The server's process, to say how much of a core it used. */
  readonly serverPid: number | null;
  /** Also give back when each request was sent. */
  readonly keepSentAt: boolean;
}

export interface RunResult {
  /** Answers to all requests of the run, warm-up included, by status. */
  readonly statuses: Readonly<Record<string, number>>;
  readonly sent: number;
  /** Requests that were sent and never answered. */
  readonly unanswered: number;
  /** From here on, of the measured part alone. */
  readonly requests: number;
  readonly seconds: number;
  readonly perSecond: number;
  /** In the open loop, from the moment a request should have been sent. */
  readonly latency: Latency;
  /** Cores used, 1 being one core all the time. An open loop that spins always uses 1 itself. */
  readonly loadCores: number;
  readonly serverCores: number | null;
  /** By sequence: milliseconds of the system's monotonic clock. Zero: not sent. */
  readonly sentAt: Float64Array | null;
}

/** Milliseconds of the clock that all processes of the machine share. */
export function sharedClock(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

const mostLost = 1000;

/** Runs one load from start to the last answer. Rejects when the server cannot be reached. */
export async function runLoad(spec: RunSpec, pool: RequestPool): Promise<RunResult> {
  const limit = Math.min(spec.limit, pool.set.count);
  const { oneRequestEach = false, sleeps = false } = spec;
  const statuses: Record<string, number> = {};
  const times = new Float64Array(limit);
  const sentAt = spec.keepSentAt ? new Float64Array(limit) : null;
  const idle: Connection[] = [];
  const { promise: finished, resolve: finish, reject: fail } = Promise.withResolvers<void>();
  let next = 0;
  let answers = 0;
  let unanswered = 0;
  let measured = 0;
  let lost = 0;
  let offering = false;
  /** A request was due, and every connection waited for its answer. */
  let isBehind = false;
  let startedAt = Number.POSITIVE_INFINITY;
  let measureFrom = Number.POSITIVE_INFINITY;
  let measureTo = Number.POSITIVE_INFINITY;

  const answered = (connection: Connection, status: number) => {
    const now = performance.now();
    statuses[status] = (statuses[status] ?? 0) + 1;
    answers += 1;
    if (oneRequestEach) connection.leave();
    // The open loop measures all that was due in the window, however late: leaving out what a slow
    // server held up would praise it.
    const at = spec.rate === null ? now : connection.since;
    // A pause of the machine may be longer than the window: it then ends after the first answer.
    if (spec.rate === null && measured === 0 && at >= measureTo) measureTo = at + 1;
    if (at >= measureFrom && at < measureTo) {
      times[measured] = now - connection.since;
      measured += 1;
    }
    connection.sequence = -1;
    go(connection, now);
  };
  const reconnect = (connection: Connection) => {
    connection.open().then(
      () => go(connection, performance.now()),
      (error: Error) => fail(error),
    );
  };
  const onLost = (connection: Connection, error: Error | null) => {
    if (connection.sequence !== -1) unanswered += 1;
    connection.sequence = -1;
    const at = idle.indexOf(connection);
    if (at !== -1) idle.splice(at, 1);
    lost += 1;
    if (lost > mostLost)
      fail(
        new Error(
          `${lost} connections were lost, the last one by ${error?.message ?? "the server's closing it"}`,
        ),
      );
    else if (over(performance.now())) settle();
    else if (oneRequestEach) go(connection, performance.now());
    else reconnect(connection);
  };
  const connections = Array.from(
    { length: spec.connections },
    () => new Connection(spec.port, answered, onLost),
  );
  if (!oneRequestEach) await Promise.all(connections.map((connection) => connection.open()));

  const gapMs = spec.rate === null ? 0 : 1000 / spec.rate;
  const dueAt = (sequence: number) => startedAt + sequence * gapMs;

  function over(now: number): boolean {
    return next >= limit || (spec.rate === null ? now : dueAt(next)) >= measureTo;
  }
  function settle(): void {
    if (answers + unanswered >= next) finish();
  }
  function send(connection: Connection, since: number): void {
    const sequence = next;
    next += 1;
    if (sentAt !== null) sentAt[sequence] = sharedClock();
    if (oneRequestEach) connection.sendAlone(pool.request(sequence), sequence, since);
    else connection.send(pool.request(sequence), sequence, since);
  }
  function go(connection: Connection, now: number): void {
    if (over(now)) settle();
    else if (spec.rate === null) send(connection, now);
    else if (dueAt(next) <= now && (isBehind || !sleeps)) send(connection, dueAt(next));
    else {
      idle.push(connection);
      offerSoon();
    }
  }
  // Timers of Node are a millisecond coarse, which is as long as what is measured: an open loop
  // spins unless told to sleep. But not while every connection waits for its answer: `go` sends
  // what is due then, and spinning would take the core from a server that is behind.
  function offer(): void {
    offering = false;
    const now = performance.now();
    // The longest idle first: a server closes connections that send nothing for long.
    while (idle.length > 0 && !over(now) && dueAt(next) <= now) {
      send(idle.shift() as Connection, sleeps && !isBehind ? now : dueAt(next));
    }
    isBehind = !over(now) && dueAt(next) <= now;
    if (over(now)) settle();
    else if (idle.length > 0) offerSoon();
  }
  function offerSoon(): void {
    if (offering) return;
    offering = true;
    if (sleeps) setTimeout(offer, 1);
    else setImmediate(offer);
  }

  startedAt = performance.now();
  measureFrom = startedAt + spec.warmupMs;
  if (spec.measureMs !== null) measureTo = measureFrom + spec.measureMs;
  const cpu = { load: process.cpuUsage(), server: serverSeconds(spec), at: startedAt };
  const warmed = setTimeout(() => {
    cpu.load = process.cpuUsage();
    cpu.server = serverSeconds(spec);
    cpu.at = performance.now();
  }, spec.warmupMs);
  for (const connection of connections) go(connection, startedAt);
  try {
    await finished;
  } finally {
    clearTimeout(warmed);
    for (const connection of connections) connection.close();
  }
  const endedAt = performance.now();
  const load = process.cpuUsage(cpu.load);
  const server = serverSeconds(spec);
  const cpuSeconds = (endedAt - cpu.at) / 1000;
  const lastAt = spec.rate === null ? Math.min(endedAt, measureTo) : endedAt;
  const seconds = (lastAt - measureFrom) / 1000;
  return {
    statuses,
    sent: next,
    unanswered,
    requests: measured,
    seconds,
    perSecond: measured / seconds,
    latency: latencyOf(times.subarray(0, measured)),
    loadCores: (load.user + load.system) / 1e6 / cpuSeconds,
    serverCores: server === null || cpu.server === null ? null : (server - cpu.server) / cpuSeconds,
    sentAt,
  };
}

function serverSeconds(spec: RunSpec): number | null {
  return spec.serverPid === null ? null : processorSeconds(spec.serverPid);
}
