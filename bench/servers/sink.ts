import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { numbersIn } from "../events.ts";
import { sharedClock } from "../load/run.ts";
import { answerParent } from "../process/child.ts";

/** What a sink has received; times are of the shared clock, in milliseconds. */
export interface Sunk {
  /** Requests, repeats included. */
  readonly requests: number;
  /** Different events. */
  readonly events: number;
  /** When the first event came in, and the last one that was new; 0: none did. */
  readonly firstAt: number;
  readonly lastAt: number;
}

interface RunSunk extends Sunk {
  /** By sequence: when each event came in first; zero: not yet. */
  readonly arrivedAt: Float64Array;
}

/**
 * `counts` of one run, or of all (null); `arrivals` of one run, as a Float64Array by sequence;
 * `open`: answer what was held.
 */
export type SinkOrder =
  | { readonly counts: number | null }
  | { readonly arrivals: number }
  | { readonly open: true };

const nothing: RunSunk = {
  requests: 0,
  events: 0,
  firstAt: 0,
  lastAt: 0,
  arrivedAt: new Float64Array(1 << 14),
};

/** A destination that takes everything and remembers which events it has seen. */
const runs = new Map<number, RunSunk>();

/** Answers so many milliseconds after a request came; 0: at once. */
const delayMs = Number(process.argv[3] ?? 0);
/** With `held` as last argument nothing is answered before it is told to. */
let held: (() => void)[] | null = process.argv[4] === "held" ? [] : null;

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => void chunks.push(chunk));
  request.on("end", () => {
    take(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
    const answer = () => {
      response.writeHead(200, { "content-length": "0" });
      response.end();
    };
    if (held !== null) held.push(answer);
    else if (delayMs > 0) setTimeout(answer, delayMs);
    else answer();
  });
});

function take(body: Buffer): void {
  const numbers = numbersIn(body);
  if (numbers === null) return;
  const now = sharedClock();
  const before = runs.get(numbers.run) ?? {
    ...nothing,
    firstAt: now,
    arrivedAt: nothing.arrivedAt.slice(),
  };
  const arrivedAt = atLeast(before.arrivedAt, numbers.sequence + 1);
  const isNew = arrivedAt[numbers.sequence] === 0;
  if (isNew) arrivedAt[numbers.sequence] = now;
  runs.set(numbers.run, {
    requests: before.requests + 1,
    events: before.events + (isNew ? 1 : 0),
    firstAt: before.firstAt,
    lastAt: isNew ? now : before.lastAt,
    arrivedAt,
  });
}

function atLeast(times: Float64Array, length: number): Float64Array {
  if (times.length >= length) return times;
  const longer = new Float64Array(Math.max(length, times.length * 2));
  longer.set(times);
  return longer;
}

function countsOf(sunk: readonly RunSunk[]): Sunk {
  if (sunk.length === 0) return nothing;
  return {
    requests: sunk.reduce((sum, each) => sum + each.requests, 0),
    events: sunk.reduce((sum, each) => sum + each.events, 0),
    firstAt: Math.min(...sunk.map((each) => each.firstAt)),
    lastAt: Math.max(...sunk.map((each) => each.lastAt)),
  };
}

server.listen(Number(process.argv[2]), "127.0.0.1", () => {
  answerParent(
    async (order) => {
      const asked = order as SinkOrder;
      if ("open" in asked) {
        for (const answer of held ?? []) answer();
        held = null;
        return null;
      }
      if ("arrivals" in asked) return (runs.get(asked.arrivals) ?? nothing).arrivedAt;
      const of = asked.counts === null ? [...runs.values()] : [runs.get(asked.counts) ?? nothing];
      const { requests, events, firstAt, lastAt } = countsOf(of);
      return { requests, events, firstAt, lastAt } satisfies Sunk;
    },
    (server.address() as AddressInfo).port,
  );
});
