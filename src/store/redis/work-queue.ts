import { Queue, Worker } from "bullmq";
import type { Clock } from "../../model/clock.ts";
import type { DueListener } from "../port.ts";
import type { DueDelivery } from "../rules.ts";
import type { RedisSettings } from "../settings.ts";
import { createRedisClient, type Redis } from "./client.ts";

/** Name of the BullMQ queue; the relay's prefix puts its keys into the same slot. */
const workQueueName = "work";

/**
 * Wakes a process with role `work`: deliveries of this route are due or, without a route, events wait to be planned. The
 * work itself is claimed from the store. A job that is lost, repeated or late only changes when the work starts, by at most
 * one second, because every worker also polls.
 */
interface WorkJob {
  readonly route?: string;
}

/** Least interval between jobs for deliveries due now, per route and process; a last job follows the last announcement. */
const jobEveryMs = 10;
/** One job per route and second for later deliveries, over all processes. */
const bucketMs = 1000;
/** Job ids remembered as added by this process. */
const mostBuckets = 1000;
/** Concurrent jobs; each ends as soon as the route's lane is woken. */
const concurrency = 16;

interface WorkQueueParts {
  readonly settings: RedisSettings;
  /** The fail-fast client of the store. */
  readonly client: Redis;
  readonly clock: Clock;
}

export function createWorkQueue({ settings, client, clock }: WorkQueueParts) {
  const prefix = `{${settings.prefix}}`;
  const queue = new Queue<WorkJob>(workQueueName, {
    connection: client,
    prefix,
    skipWaitingForReady: true,
    skipVersionCheck: true,
    defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
  });
  // The store's connection reports that Redis is unavailable.
  queue.on("error", () => {});
  const listeners = new Set<DueListener>();
  const planners = new Set<() => void>();
  /** Routes with a recent job: whether more was announced since. */
  const recentJobs = new Map<string, { isMore: boolean; cancel: () => void }>();
  const buckets = new Set<string>();
  let worker: { readonly worker: Worker<WorkJob>; readonly client: Redis } | null = null;
  let isClosed = false;

  /** The deliveries are stored already: without the job they wait for a worker's poll. */
  function add(route: string, options: { readonly delay?: number; readonly jobId?: string }): void {
    queue.add("deliver", { route }, options).catch(() => {});
  }

  function addNow(route: string): void {
    const recent = recentJobs.get(route);
    if (recent !== undefined) {
      recent.isMore = true;
      return;
    }
    add(route, {});
    // Deliveries announced meanwhile may miss the claim of this job, so another job follows.
    const quiet = () => {
      const { isMore } = recentJobs.get(route) ?? { isMore: false };
      recentJobs.delete(route);
      if (isMore && !isClosed) addNow(route);
    };
    recentJobs.set(route, { isMore: false, cancel: clock.after(jobEveryMs, quiet) });
  }

  function addLater(route: string, at: number, from: number): void {
    const bucket = Math.ceil(at / bucketMs);
    const jobId = `${route}@${bucket}`;
    if (buckets.has(jobId)) return;
    if (buckets.size >= mostBuckets) buckets.clear();
    buckets.add(jobId);
    add(route, { jobId, delay: Math.max(0, bucket * bucketMs - from) });
  }

  function startWorker(): void {
    if (worker !== null || isClosed) return;
    const patient = createRedisClient(settings, "wamid-relay work", "patient");
    patient.on("error", () => {});
    const started = new Worker<WorkJob>(
      workQueueName,
      async ({ data: { route } }) => {
        if (route === undefined) for (const wake of planners) wake();
        else for (const listener of listeners) listener.wake(route);
      },
      { connection: patient, prefix, concurrency, skipVersionCheck: true },
    );
    started.on("error", () => {});
    worker = { worker: started, client: patient };
  }

  return {
    /** A delivery of the route waits until `at` (unix ms): adds a job for that time. */
    later(route: string, at: number): void {
      if (!isClosed) addLater(route, at, clock.now());
    },
    /** Deliveries became due, or will be: wakes a worker of this process at once, of another by a job. Never fails. */
    announce(due: readonly DueDelivery[]): void {
      if (isClosed || due.length === 0) return;
      if (listeners.size > 0) {
        for (const listener of listeners) listener.offer(due);
        return;
      }
      const at = clock.now();
      for (const one of due) {
        if (one.at <= at) addNow(one.route);
        else addLater(one.route, one.at, at);
      }
    },
    /** Wakes the workers of a route after a change that concerns all of them. */
    wake(route: string): void {
      for (const listener of listeners) listener.wake(route);
      if (!isClosed) add(route, {});
    },
    onDue(listener: DueListener): () => void {
      listeners.add(listener);
      startWorker();
      return () => void listeners.delete(listener);
    },
    /** Events wait to be planned: wakes a planner of this process, or adds a job for another. Never fails. */
    waiting(): void {
      if (isClosed) return;
      if (planners.size > 0) for (const wake of planners) wake();
      else queue.add("plan", {}).catch(() => {});
    },
    /** Calls `wake` when events wait to be planned. */
    onWaiting(wake: () => void): () => void {
      planners.add(wake);
      startWorker();
      return () => void planners.delete(wake);
    },
    async close(): Promise<void> {
      isClosed = true;
      listeners.clear();
      planners.clear();
      for (const { cancel } of recentJobs.values()) cancel();
      // Jobs end at once; if one does not, another worker gets it when its lock expires.
      await worker?.worker.close(true).catch(() => {});
      worker?.client.disconnect();
      await queue.close().catch(() => {});
    },
  };
}

export type WorkQueue = ReturnType<typeof createWorkQueue>;
