import { Queue, Worker } from "bullmq";
import type { Clock } from "../../event/clock.ts";
import type { DueListener } from "../port.ts";
import type { DueDelivery } from "../rules.ts";
import type { RedisSettings } from "../settings.ts";
import { createRedisClient, type Redis } from "./client.ts";

/** Name of the BullMQ queue; with the relay's prefix its keys are in the same slot as everything else. */
const workQueueName = "work";

/**
 * The job that carries work to some process with role `work`: deliveries of this route are due, or, without one, accepted
 * events are to be planned. What they are is in Redis itself, where whoever has the job claims them: a job that is lost, done twice or kept too long changes nothing but
 * when they go out, and at most by the second after which every worker looks by itself.
 */
interface WorkJob {
  readonly route?: string;
}

export interface WorkQueue {
  /** Deliveries became due, or will be: a worker of this process is told at once, one of another by a job. Never fails. */
  announce(due: readonly DueDelivery[]): void;
  /** A delivery of the route waits until `at` (unix ms): whoever lives then gets a job. */
  later(route: string, at: number): void;
  /** Something has changed about a route for all who send its deliveries. */
  wake(route: string): void;
  /** Events wait to be planned: a worker of some process gets a job, unless this process plans them itself. Never fails. */
  waiting(): void;
  onDue(listener: DueListener): () => void;
  /** Told of such jobs. */
  onWaiting(wake: () => void): () => void;
  close(): Promise<void>;
}

/** Jobs for deliveries due now, of one route and process, come no closer than this; the last of what is announced has one after it. */
const jobEveryMs = 10;
/** Jobs for later ones are one for each second, whoever adds them. */
const bucketMs = 1000;
/** Most such jobs of this process that are remembered as added. */
const mostBuckets = 1000;
/** Jobs at hand at once: each ends as soon as the route's lane is woken. */
const concurrency = 16;

interface WorkQueueParts {
  readonly settings: RedisSettings;
  /** Fails fast: it is the connection of the store. */
  readonly client: Redis;
  readonly clock: Clock;
}

export function createWorkQueue({ settings, client, clock }: WorkQueueParts): WorkQueue {
  const prefix = `{${settings.prefix}}`;
  const queue = new Queue<WorkJob>(workQueueName, {
    connection: client,
    prefix,
    skipWaitingForReady: true,
    skipVersionCheck: true,
    defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
  });
  // That Redis is out of reach is told by the store's connection, once.
  queue.on("error", () => {});
  const listeners = new Set<DueListener>();
  const planners = new Set<() => void>();
  /** Routes that had a job just now: whether something was announced since. */
  const justTold = new Map<string, { isMore: boolean; cancel: () => void }>();
  const buckets = new Set<string>();
  let worker: { readonly worker: Worker<WorkJob>; readonly client: Redis } | null = null;
  let isClosed = false;

  /** The deliveries are in Redis already: without the job they wait for a worker's own look. */
  function add(route: string, options: { readonly delay?: number; readonly jobId?: string }): void {
    queue.add("deliver", { route }, options).catch(() => {});
  }

  function addNow(route: string): void {
    const told = justTold.get(route);
    if (told !== undefined) {
      told.isMore = true;
      return;
    }
    add(route, {});
    // What is announced meanwhile may come after the claim that the job leads to: without another job it would wait for a look.
    const quiet = () => {
      const { isMore } = justTold.get(route) ?? { isMore: false };
      justTold.delete(route);
      if (isMore && !isClosed) addNow(route);
    };
    justTold.set(route, { isMore: false, cancel: clock.after(jobEveryMs, quiet) });
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
    later(route, at) {
      if (!isClosed) addLater(route, at, clock.now());
    },
    announce(due) {
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
    wake(route) {
      for (const listener of listeners) listener.wake(route);
      if (!isClosed) add(route, {});
    },
    onDue(listener) {
      listeners.add(listener);
      startWorker();
      return () => void listeners.delete(listener);
    },
    waiting() {
      if (isClosed) return;
      if (planners.size > 0) for (const wake of planners) wake();
      else queue.add("plan", {}).catch(() => {});
    },
    onWaiting(wake) {
      planners.add(wake);
      startWorker();
      return () => void planners.delete(wake);
    },
    async close() {
      isClosed = true;
      listeners.clear();
      planners.clear();
      for (const { cancel } of justTold.values()) cancel();
      // Its jobs end at once; one that does not is given to another worker when its lock ends.
      await worker?.worker.close(true).catch(() => {});
      worker?.client.disconnect();
      await queue.close().catch(() => {});
    },
  };
}
