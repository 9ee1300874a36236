import { Worker } from "node:worker_threads";
import type { AuditReport } from "../../model/audit.ts";
import type { DeliveryState } from "../../model/delivery.ts";
import type { Disposition } from "../../model/plan.ts";
import { StoreUnavailable } from "../port.ts";
import type { AuditOrder, AuditProgress, Inspecting, Stats } from "../reading.ts";
import { dispositionList, stateList } from "./names.ts";
import type { Db } from "./open.ts";

interface Asked {
  readonly progress: (at: AuditProgress) => void;
  readonly resolve: (answer: InspectAnswer) => void;
  readonly reject: (error: Error) => void;
}

type InspectQuestion = { readonly kind: "stats" } | { readonly kind: "audit"; readonly order: AuditOrder };

/** An idle thread ends after this time. Starting another takes about 0.1 s. */
const idleMs = 10_000;

const thread = new URL(import.meta.url.endsWith(".ts") ? "./inspect-thread.ts" : "./inspect-thread.js", import.meta.url);

/** Reads every row in a thread of its own. */
export function createInspecting(path: string): Inspecting {
  const asked = new Map<number, Asked>();
  let worker: Worker | null = null;
  let idle: NodeJS.Timeout | null = null;
  let counting: Promise<Stats> | null = null;
  let nextId = 1;
  let isClosed = false;

  function fail(error: Error): void {
    const all = [...asked.values()];
    asked.clear();
    for (const { reject } of all) reject(error);
  }

  function settle(answer: InspectAnswer): void {
    const of = asked.get(answer.id);
    if (of === undefined) return;
    if ("progress" in answer) {
      of.progress(answer.progress);
      return;
    }
    asked.delete(answer.id);
    if ("error" in answer) of.reject(new StoreUnavailable(`the store cannot be read: ${answer.error.message}`));
    else of.resolve(answer);
    if (asked.size > 0) return;
    worker?.unref();
    idle = setTimeout(() => void end(), idleMs);
    idle.unref();
  }

  async function end(): Promise<void> {
    const ended = worker;
    worker = null;
    await ended?.terminate();
  }

  function started(): Worker {
    if (worker !== null) return worker;
    const made = new Worker(thread, { workerData: { path }, execArgv: [] });
    made.on("message", settle);
    made.on("error", (error) => {
      if (worker === made) worker = null;
      fail(new StoreUnavailable(`the inspecting thread failed: ${(error as Error).message}`, { cause: error }));
    });
    worker = made;
    return made;
  }

  function ask(question: InspectQuestion, progress: Asked["progress"] = () => {}): Promise<InspectAnswer> {
    if (isClosed) return Promise.reject(new StoreUnavailable("the store is closed"));
    if (idle !== null) clearTimeout(idle);
    const job: InspectJob = { ...question, id: nextId++ };
    return new Promise((resolve, reject) => {
      asked.set(job.id, { progress, resolve, reject });
      const at = started();
      at.ref();
      at.postMessage(job);
    });
  }

  return {
    stats() {
      // Concurrent callers share one count.
      counting ??= ask({ kind: "stats" })
        .then((answer) => (answer as Extract<InspectAnswer, { stats: unknown }>).stats)
        .finally(() => {
          counting = null;
        });
      return counting;
    },
    async audit(order, progress) {
      const answer = await ask({ kind: "audit", order }, progress);
      return (answer as Extract<InspectAnswer, { report: unknown }>).report;
    },
    async close() {
      isClosed = true;
      if (idle !== null) clearTimeout(idle);
      fail(new StoreUnavailable("the store was closed"));
      await end();
    },
  };
}

/** Requests to the inspecting thread and its answers, joined by `id`. */
export type InspectJob =
  | { readonly id: number; readonly kind: "stats" }
  | { readonly id: number; readonly kind: "audit"; readonly order: AuditOrder };

export type InspectAnswer =
  | { readonly id: number; readonly progress: AuditProgress }
  | { readonly id: number; readonly stats: Stats }
  | { readonly id: number; readonly report: AuditReport }
  | { readonly id: number; readonly error: { readonly message: string; readonly code: string | undefined } };

/** Seqs per slice: some tens of milliseconds. */
const sliceSeqs = 50_000;

/** Counts every row, one slice of events with their deliveries at a time. It yields between two short transactions. */
export function* countStats(db: Db): Generator<void, Stats> {
  const bounds = db.prepare<[], { oldest: number | null; newest: number | null }>(
    "SELECT (SELECT min(seq) FROM events) AS oldest, (SELECT max(seq) FROM events) AS newest",
  );
  const range = "BETWEEN ? AND ?";
  const byDisposition = db.prepare<[number, number], { disposition: number; n: number; duplicates: number }>(
    `SELECT disposition, count(*) AS n, sum(duplicates) AS duplicates FROM events WHERE seq ${range} GROUP BY disposition`,
  );
  const byState = db.prepare<[number, number], { state: number; n: number }>(
    `SELECT state, count(*) AS n FROM deliveries WHERE event ${range} GROUP BY state`,
  );
  const attempts = db.prepare<[number, number], { made: number; failed: number }>(
    `SELECT count(*) AS made, count(*) FILTER (WHERE error IS NOT NULL OR status NOT BETWEEN 200 AND 299) AS failed FROM attempts
     WHERE event ${range}`,
  );
  const dispositions = Object.fromEntries(dispositionList.map((word) => [word, 0])) as Record<Disposition, number>;
  const deliveries = Object.fromEntries(stateList.map((word) => [word, 0])) as Record<DeliveryState, number>;
  const sum = { duplicates: 0, made: 0, failed: 0 };

  const { oldest, newest } = bounds.get() ?? { oldest: null, newest: null };
  const last = newest ?? 0;
  for (let from = oldest ?? 1; from <= last; from += sliceSeqs) {
    // Events that arrived since the start are not counted.
    const to = from + sliceSeqs > last ? last : from + sliceSeqs - 1;
    db.transaction(() => {
      for (const row of byDisposition.all(from, to)) {
        const word = dispositionList[row.disposition];
        if (word !== undefined) dispositions[word] += row.n;
        sum.duplicates += row.duplicates;
      }
      for (const row of byState.all(from, to)) {
        const word = stateList[row.state];
        if (word !== undefined) deliveries[word] += row.n;
      }
      const { made = 0, failed = 0 } = attempts.get(from, to) ?? {};
      sum.made += made;
      sum.failed += failed;
    })();
    yield;
  }
  return { dispositions, duplicates: sum.duplicates, deliveries, attempts: { made: sum.made, failed: sum.failed } };
}
