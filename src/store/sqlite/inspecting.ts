import { getCompileCacheDir } from "node:module";
import { Worker } from "node:worker_threads";
import type { AuditReport } from "../../model/audit.ts";
import type { QualityQuery, QualityView, SeriesQuery, SeriesView } from "../../model/history.ts";
import type { LastHour } from "../../model/last-hour.ts";
import { StoreUnavailable } from "../port.ts";
import type { AuditOrder, AuditProgress, Inspecting, Stats } from "../reading.ts";
import type {
  DeliveryCounts,
  DeliveryFilter,
  DeliveryGroupView,
  DeliveryView,
  EventFilter,
  EventsListed,
  GroupFilter,
  MessageFilter,
  MessageView,
  Numbered,
  QuarantineCount,
  RouteBacklog,
  RunFilter,
  RunView,
} from "../views.ts";
import type { Copied } from "./copy.ts";

/** The reads of pages that may go through many rows. */
export interface PageReads {
  events(filter: EventFilter): EventsListed;
  deliveries(filter: DeliveryFilter): DeliveryView[];
  deliveryCounts(events: readonly number[]): ReadonlyMap<number, DeliveryCounts>;
  groups(filter: GroupFilter): DeliveryGroupView[];
  messages(filter: MessageFilter): Numbered<MessageView>[];
  runs(filter: RunFilter): Numbered<RunView>[];
  series(query: SeriesQuery): SeriesView;
  lastHour(now: number): LastHour;
  quality(query: QualityQuery): QualityView;
  backlog(): RouteBacklog[];
  quarantine(): QuarantineCount;
}
type PageName = keyof PageReads;
type Asked<Name extends PageName> = (...asked: Parameters<PageReads[Name]>) => Promise<ReturnType<PageReads[Name]>>;

/** Threads that read one file. */
export interface FileInspecting extends Inspecting {
  readonly pages: { readonly [Name in PageName]: Asked<Name> };
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
  | { readonly kind: "page"; readonly name: PageName; readonly asked: readonly unknown[] }
  | { readonly kind: "stats" }
  | { readonly kind: "audit"; readonly order: AuditOrder }
  | { readonly kind: "copy"; readonly to: string }
  | { readonly kind: "damage" };

/**
 * An idle thread ends after this time. Starting another takes 0.1 s or more. The one for pages outlives the polls of a
 * console in a hidden tab.
 */
const idleMs = { pages: 60_000, whole: 10_000 };

const thread = new URL(import.meta.url.endsWith(".ts") ? "./inspect-thread.ts" : "./inspect-thread.js", import.meta.url);

/**
 * Reads every row in threads of its own. What a page waits for is read in another thread than what takes seconds or minutes:
 * a statement of an audit or a copy would delay it.
 */
export function createInspecting(path: string): FileInspecting {
  const pages = createThread(path, idleMs.pages);
  const whole = createThread(path, idleMs.whole);
  let counting: Promise<Stats> | null = null;

  const page =
    <Name extends PageName>(name: Name): Asked<Name> =>
    async (...asked) => {
      const answer = await pages.request({ kind: "page", name, asked });
      return (answer as Extract<InspectAnswer, { page: unknown }>).page as ReturnType<PageReads[Name]>;
    };
  const [series, quality] = [page("series"), page("quality")];

  return {
    pages: {
      events: page("events"),
      deliveries: page("deliveries"),
      deliveryCounts: page("deliveryCounts"),
      groups: page("groups"),
      messages: page("messages"),
      runs: page("runs"),
      series,
      lastHour: page("lastHour"),
      quality,
      backlog: page("backlog"),
      quarantine: page("quarantine"),
    },
    series,
    quality,
    stats() {
      // Concurrent callers share one count.
      counting ??= whole
        .request({ kind: "stats" })
        .then((answer) => (answer as Extract<InspectAnswer, { stats: unknown }>).stats)
        .finally(() => {
          counting = null;
        });
      return counting;
    },
    async audit(order, progress) {
      const answer = await whole.request({ kind: "audit", order }, progress);
      return (answer as Extract<InspectAnswer, { report: unknown }>).report;
    },
    async copy(to, progress) {
      const answer = await whole.request({ kind: "copy", to }, progress);
      return (answer as Extract<InspectAnswer, { copied: unknown }>).copied;
    },
    async findDamage() {
      const answer = await whole.request({ kind: "damage" });
      return (answer as Extract<InspectAnswer, { damage: unknown }>).damage;
    },
    async close() {
      await Promise.all([pages.close(), whole.close()]);
    },
  };
}

function createThread(path: string, endAfterMs: number) {
  const pending = new Map<number, PendingJob>();
  let worker: Worker | null = null;
  let idle: NodeJS.Timeout | null = null;
  let ending: Promise<unknown> = Promise.resolve();
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
    idle = setTimeout(() => void end(), endAfterMs);
    idle.unref();
  }

  /** Resolves once the thread has closed the file. */
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
    const made = new Worker(thread, { workerData: { path }, execArgv: [], env });
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
    request,
    async close(): Promise<void> {
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
  | { readonly page: unknown }
  | { readonly stats: Stats }
  | { readonly report: AuditReport }
  | { readonly copied: Copied }
  | { readonly damage: string | null }
  | { readonly error: { readonly message: string } }
);
