import { getCompileCacheDir } from "node:module";
import { Worker } from "node:worker_threads";
import type { AuditProgress } from "../../model/audit.ts";
import { minuteMs } from "../../model/history.ts";
import { lastHourFrom } from "../../model/last-hour.ts";
import { type Inspecting, type Stats, StoreUnavailable } from "../port.ts";
import type { StoreReading } from "../read/reading.ts";
import { settledState, whereQuarantined } from "../schema/tables.ts";
import type { Db } from "./file.ts";
import type { WholeReads } from "./thread-reads.ts";

/** Runs a read of many rows in the thread. */
type Page = <Name extends Exclude<keyof StoreReading, "isAside" | "listen">>(
  name: Name,
  ...args: Parameters<StoreReading[Name]>
) => Promise<Awaited<ReturnType<StoreReading[Name]>>>;

export interface FileInspecting extends Inspecting {
  readonly page: Page;
  /** `to` is an empty file; `checked` counts pages. */
  copy(to: string, progress: (at: AuditProgress) => void): ReturnType<WholeReads["copy"]>;
  checking(file: string): FileChecks;
}

interface FileChecks extends Pick<Inspecting, "audit"> {
  findDamage(): Promise<string | null>;
}

export interface ThreadData {
  readonly path: string;
  readonly kind: "pages" | "whole";
}
export interface ThreadCall {
  readonly id: number;
  readonly path: string;
  readonly name: string;
  readonly args: readonly unknown[];
}
export type ThreadAnswer = { readonly id: number } & (
  | { readonly progress: AuditProgress }
  | { readonly result: unknown }
  | { readonly error: string }
);

interface PendingCall {
  readonly name: string;
  readonly progress: (at: AuditProgress) => void;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

/**
 * Starting another thread takes 0.1 s or more, and keeping it 30 MB. The one for pages outlives the
 * polls of a console in a hidden tab.
 */
const idleMs = { pages: 60_000, whole: 1_000 };

const thread = new URL(
  import.meta.url.endsWith(".ts") ? "./inspect-thread.ts" : "./inspect-thread.js",
  import.meta.url,
);

/** An audit or a copy would delay what a page waits for, so each has a thread. */
export function createInspecting(path: string): FileInspecting {
  const pages = createThread({ path, kind: "pages" });
  const whole = createThread({ path, kind: "whole" });
  let counting: Promise<Stats> | null = null;
  const page: Page = (name, ...args) => pages.call(name, args) as never;
  const checking = (file: string): FileChecks => ({
    audit: (order, progress) => whole.call("audit", [order], progress, file) as never,
    findDamage: () => whole.call("damage", [], undefined, file) as never,
  });

  return {
    page,
    audit: checking(path).audit,
    checking,
    stats() {
      counting ??= (pages.call("stats", []) as Promise<Stats>).finally(() => {
        counting = null;
      });
      return counting;
    },
    copy: (to, progress) => whole.call("copy", [to], progress) as never,
    async close() {
      await Promise.all([pages.close(), whole.close()]);
    },
  };
}

function createThread(data: ThreadData) {
  const pending = new Map<number, PendingCall>();
  let worker: Worker | null = null;
  let idle: NodeJS.Timeout | null = null;
  let ending: Promise<unknown> = Promise.resolve();
  let lastId = 0;
  let isClosed = false;

  function fail(error: Error): void {
    const all = [...pending.values()];
    pending.clear();
    for (const { reject } of all) reject(error);
  }

  function settle(answer: ThreadAnswer): void {
    const asked = pending.get(answer.id);
    if (asked === undefined) return;
    if ("progress" in answer) {
      asked.progress(answer.progress);
      return;
    }
    pending.delete(answer.id);
    if ("result" in answer) asked.resolve(answer.result);
    else
      asked.reject(
        new StoreUnavailable(
          `the store cannot be ${asked.name === "copy" ? "copied" : "read"}: ${answer.error}`,
        ),
      );
    if (pending.size > 0) return;
    worker?.unref();
    idle = setTimeout(() => void end(), idleMs[data.kind]);
    idle.unref();
  }

  function end(): Promise<unknown> {
    ending = worker?.terminate() ?? ending;
    worker = null;
    return ending;
  }

  function started(): Worker {
    if (worker !== null) return worker;
    // Compiling takes half of a start.
    const cache = getCompileCacheDir();
    const env = cache === undefined ? process.env : { ...process.env, NODE_COMPILE_CACHE: cache };
    const made = new Worker(thread, { workerData: data, execArgv: [], env });
    made.on("message", settle);
    made.on("error", (error) => {
      if (worker === made) worker = null;
      fail(
        new StoreUnavailable(`the inspecting thread failed: ${(error as Error).message}`, {
          cause: error,
        }),
      );
    });
    worker = made;
    return made;
  }

  return {
    call(
      name: string,
      args: readonly unknown[],
      progress: PendingCall["progress"] = () => {},
      path = data.path,
    ): Promise<unknown> {
      if (isClosed) return Promise.reject(new StoreUnavailable("the store is closed"));
      if (idle !== null) clearTimeout(idle);
      const id = ++lastId;
      return new Promise((resolve, reject) => {
        pending.set(id, { name, progress, resolve, reject });
        const at = started();
        at.ref();
        at.postMessage({ id, path, name, args } satisfies ThreadCall);
      });
    },
    async close(): Promise<void> {
      isClosed = true;
      if (idle !== null) clearTimeout(idle);
      fail(new StoreUnavailable("the store was closed"));
      await end();
    },
  };
}

/** A thread takes longer to start. */
const fewRows = 20_000;

/** A read that may go through many rows runs in a thread and does not delay receiving. */
export function createBrowsing(
  db: Db,
  read: StoreReading,
  page: Page,
  few = fewRows,
): StoreReading {
  const { lists, undelivered, quarantined, minutes } = createHasMany(db, few);
  const always = (): boolean => true;
  const isMany = {
    ...{
      listEvents: lists,
      listDeliveries: lists,
      groupDeliveries: lists,
      countDeliveries: lists,
      listMessages: lists,
      listRuns: lists,
    },
    ...{ backlog: undelivered, quarantine: () => quarantined(), series: always, quality: always },
    lastHour: (now: number) => minutes(lastHourFrom(now)),
  } satisfies Partial<Record<Parameters<Page>[0], (now: number) => boolean>>;
  const there = page as unknown as (name: string, ...args: readonly unknown[]) => unknown;
  const either = Object.entries(isMany).map(([name, isAside]) => {
    const here = read[name as keyof typeof isMany] as (...args: readonly unknown[]) => unknown;
    return [
      name,
      (...args: readonly unknown[]) =>
        isAside(args[0] as number) ? there(name, ...args) : here(...args),
    ];
  });
  return {
    ...read,
    isAside: lists,
    ...(Object.fromEntries(either) as Pick<StoreReading, keyof typeof isMany>),
  };
}

function createHasMany(db: Db, few: number) {
  const has = (rows: string) => {
    const find = db.prepare<number[], 1>(`SELECT 1 FROM ${rows} LIMIT 1 OFFSET +?`);
    return (...values: number[]): boolean => find.get(...values, few - 1) !== undefined;
  };
  const spans = (table: string) => {
    const find = db
      .prepare<[], number | null>(
        `SELECT (SELECT max(seq) FROM ${table}) - (SELECT min(seq) FROM ${table})`,
      )
      .pluck();
    return (): boolean => (find.get() ?? 0) >= few;
  };
  const lists = [spans("events"), spans("subjects"), has("deliveries"), has("queue")];
  const undelivered = [
    has("queue"),
    has(`deliveries INDEXED BY deliveries_dead WHERE state = ${settledState.dead}`),
  ];
  const minutes = has("counters WHERE at >= +?");
  return {
    lists: (): boolean => lists.some((each) => each()),
    undelivered: (): boolean => undelivered.some((each) => each()),
    quarantined: has(`events WHERE ${whereQuarantined}`),
    minutes: (from: number): boolean => minutes(Math.floor(from / minuteMs)),
  };
}
