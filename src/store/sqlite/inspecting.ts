import { Worker } from "node:worker_threads";
import type { AuditOrder, AuditProgress, Inspecting, Stats } from "../inspecting.ts";
import { StoreUnavailable } from "../store-error.ts";
import type { InspectAnswer, InspectJob } from "./inspect-job.ts";

interface Asked {
  readonly progress: (at: AuditProgress) => void;
  readonly resolve: (answer: InspectAnswer) => void;
  readonly reject: (error: Error) => void;
}

type InspectQuestion = { readonly kind: "stats" } | { readonly kind: "audit"; readonly order: AuditOrder };

/** A thread that nobody asks for so long is ended; the next question starts another, which takes some 0.1 s. */
const idleMs = 10_000;

const thread = new URL(import.meta.url.endsWith(".ts") ? "./inspect-thread.ts" : "./inspect-thread.js", import.meta.url);

/** Looks at every row in a thread of its own. */
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
      // All who ask while rows are being counted get the same answer.
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
