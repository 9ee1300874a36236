import { Worker } from "node:worker_threads";
import type { AuditReport } from "../../model/audit.ts";
import type { QualityQuery, QualityView, SeriesQuery, SeriesView } from "../../model/history.ts";

import { StoreUnavailable } from "../port.ts";
import type { AuditOrder, AuditProgress, Inspecting, Stats } from "../reading.ts";
import type { Copied } from "./copy.ts";

/** A thread that reads one file. */
export interface FileInspecting extends Inspecting {
  /** Copies the store as it is now into the empty file `to`; `checked` counts pages. */
  copy(to: string, progress: (at: AuditProgress) => void): Promise<Copied>;
  /** The first fault that SQLite finds in the tables and their indexes. Null: none. */
  findDamage(): Promise<string | null>;
}

interface PendingJob {
  readonly kind: InspectRequest["kind"];
  readonly progress: (at: AuditProgress) => void;
  readonly resolve: (answer: InspectAnswer) => void;
  readonly reject: (error: Error) => void;
}

type InspectRequest =
  | { readonly kind: "stats" }
  | { readonly kind: "series"; readonly query: SeriesQuery }
  | { readonly kind: "quality"; readonly query: QualityQuery }
  | { readonly kind: "audit"; readonly order: AuditOrder }
  | { readonly kind: "copy"; readonly to: string }
  | { readonly kind: "damage" };

/** An idle thread ends after this time. Starting another takes about 0.1 s. */
const idleMs = 10_000;

const thread = new URL(import.meta.url.endsWith(".ts") ? "./inspect-thread.ts" : "./inspect-thread.js", import.meta.url);

/** Reads every row in a thread of its own. */
export function createInspecting(path: string): FileInspecting {
  const pending = new Map<number, PendingJob>();
  let worker: Worker | null = null;
  let idle: NodeJS.Timeout | null = null;
  let counting: Promise<Stats> | null = null;
  let nextId = 1;
  let isClosed = false;

  function fail(error: Error): void {
    const all = [...pending.values()];
    pending.clear();
    for (const { reject } of all) reject(error);
  }

  function settle(answer: InspectAnswer): void {
    const job = pending.get(answer.id);
    if (job === undefined) return;
    if ("progress" in answer) {
      job.progress(answer.progress);
      return;
    }
    pending.delete(answer.id);
    if ("error" in answer)
      job.reject(new StoreUnavailable(`the store cannot be ${job.kind === "copy" ? "copied" : "read"}: ${answer.error.message}`));
    else job.resolve(answer);
    if (pending.size > 0) return;
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

  function request(kind: InspectRequest, progress: PendingJob["progress"] = () => {}): Promise<InspectAnswer> {
    if (isClosed) return Promise.reject(new StoreUnavailable("the store is closed"));
    if (idle !== null) clearTimeout(idle);
    const job: InspectJob = { ...kind, id: nextId++ };
    return new Promise((resolve, reject) => {
      pending.set(job.id, { kind: job.kind, progress, resolve, reject });
      const at = started();
      at.ref();
      at.postMessage(job);
    });
  }

  return {
    stats() {
      // Concurrent callers share one count.
      counting ??= request({ kind: "stats" })
        .then((answer) => (answer as Extract<InspectAnswer, { stats: unknown }>).stats)
        .finally(() => {
          counting = null;
        });
      return counting;
    },
    async series(query) {
      const answer = await request({ kind: "series", query });
      return (answer as Extract<InspectAnswer, { series: unknown }>).series;
    },
    async quality(query) {
      const answer = await request({ kind: "quality", query });
      return (answer as Extract<InspectAnswer, { quality: unknown }>).quality;
    },
    async audit(order, progress) {
      const answer = await request({ kind: "audit", order }, progress);
      return (answer as Extract<InspectAnswer, { report: unknown }>).report;
    },
    async copy(to, progress) {
      const answer = await request({ kind: "copy", to }, progress);
      return (answer as Extract<InspectAnswer, { copied: unknown }>).copied;
    },
    async findDamage() {
      const answer = await request({ kind: "damage" });
      return (answer as Extract<InspectAnswer, { damage: unknown }>).damage;
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
export type InspectJob = InspectRequest & { readonly id: number };

export type InspectAnswer = { readonly id: number } & (
  | { readonly progress: AuditProgress }
  | { readonly stats: Stats }
  | { readonly series: SeriesView }
  | { readonly quality: QualityView }
  | { readonly report: AuditReport }
  | { readonly copied: Copied }
  | { readonly damage: string | null }
  | { readonly error: { readonly message: string } }
);
