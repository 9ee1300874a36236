import { randomUUID } from "node:crypto";
import { realpathSync } from "node:fs";
import { hostname } from "node:os";
import type { Settings } from "../config/schema.ts";
import type { DispatcherParts } from "../deliver/dispatcher.ts";
import type { InstanceView } from "../model/answers/relay.ts";
import type { Budgets } from "../model/budget.ts";
import type { Clock } from "../model/clock.ts";
import type { DatabaseFacts } from "../model/database.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { relayVersion } from "../model/version.ts";
import type { LogStream } from "../observe/logger.ts";
import type { Store } from "../store/create-store.ts";
import { type Rules, type StoreHooks, StoreRefused } from "../store/port.ts";
import type { Presence } from "../store/postgres/server.ts";
import { postgresName, type StorageSettings } from "../store/settings.ts";
import type { RereadSettings } from "./reload.ts";

/**
 * What a process of the relay does.
 *
 * | role | serves | does |
 * |---|---|---|
 * | `receive` | webhooks, `/v1`, operator pages | accepts, answers, sends on request |
 * | `work` | operator pages | plans, delivers, hydrates, reconciles, maintains the store |
 * | `both` | all | all |
 */
export type Role = "receive" | "work" | "both";

/**
 * Throws `StoreRefused` for a role that the engine does not support: one process opens a file, and
 * it does everything.
 */
export function checkRole(role: Role, { driver }: StorageSettings): void {
  if (role !== "both" && driver === "sqlite") {
    throw new StoreRefused(
      `a process with the role ${role} alone needs storage.driver postgres: a file is one process's, which does both`,
    );
  }
}

/** How a relay runs. */
export interface Run {
  readonly settings: Settings;
  readonly log: LogStream;
  /**
   * Reads the settings file again; throws `SettingsError`. Without it, only `reload(settings)`
   * changes the settings.
   */
  readonly reread?: () => MaybePromise<RereadSettings>;
  /** The path of the settings file, for people. */
  readonly file: string | null;
  /** Default: the system's, or for a store that processes share, the store's. */
  readonly clock?: Clock;
  readonly random: () => number;
  readonly role: Role;
  /** False: nothing is sent; for a command that only writes to the store. */
  readonly dispatch: boolean;
  /** Whether the messaging service is called. */
  readonly calls: boolean;
  /** It delivers, calls the service by itself, and maintains the store. */
  readonly works: boolean;
  readonly cleanup: Cleanup;
}

/** By default it has the role `both`, and dispatches and calls. */
export type RelayOptions = Pick<Run, "settings" | "log"> & Partial<Omit<Run, "works" | "cleanup">>;

export interface Engine {
  readonly store: Store;
  /** The time of all processes that share the store. */
  readonly clock: Clock;
  /** Divides the caps of an account, where processes share the store. */
  readonly budgets?: (account: string, baseUrl: string) => Budgets;
  /**
   * How deliveries are queued, what is stored of their destinations, and which routes this process
   * delivers.
   */
  readonly lanes: Pick<DispatcherParts, "queueOf" | "notesOf" | "leases">;
  /** The processes that use the store now, where processes share it. */
  readonly processes: () => Promise<readonly Presence[]>;
  /** Null: the store is no server. */
  readonly database: () => Promise<DatabaseFacts | null>;
}

export interface OpenOptions {
  /** `command`: a command that uses the store for a moment. */
  readonly role: Role | "command";
  /** Id of this process; default: a new one. */
  readonly instance?: string | undefined;
  readonly rules: Rules;
  readonly hooks: StoreHooks;
  /** Default: the system's, or for a shared store, the store's. */
  readonly clock?: Clock | undefined;
}

export type Instance = Pick<InstanceView, "instance" | "version" | "startedAt">;

/** The id of this process, which its store and `/healthz` show. */
export const createInstance = (startedAt: number): Instance => ({
  instance: randomUUID(),
  version: relayVersion(),
  startedAt,
});

export function viewInstance(
  instance: Instance,
  role: Exclude<Role, "work">,
  { storage }: Pick<Settings, "storage">,
): InstanceView {
  return {
    ...instance,
    pid: process.pid,
    host: hostname(),
    role,
    store: { driver: storage.driver, place: storePlace(storage) },
  };
}

/** Where the store is, for people: links and relative paths resolved, and no password. */
export function storePlace(storage: StorageSettings): string {
  return storage.driver === "postgres" ? postgresName(storage) : realPath(storage.path);
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

export type Cleanup = ReturnType<typeof createCleanup>;

/** Closes parts in the reverse order of their creation. Node 22 has no AsyncDisposableStack. */
export function createCleanup() {
  const steps: (() => unknown)[] = [];
  const first: (() => unknown)[] = [];

  /** Takes every step once, also after one that throws. Rejects with the first error. */
  async function run(): Promise<void> {
    const errors: unknown[] = [];
    const take = async (step: () => unknown): Promise<void> => {
      try {
        await step();
      } catch (error) {
        errors.push(error);
      }
    };
    await Promise.all(first.splice(0).map(take));
    for (let step = steps.pop(); step !== undefined; step = steps.pop()) await take(step);
    if (errors.length > 0) throw errors[0];
  }

  return {
    /** Adds a step that `run` takes before all earlier ones. */
    defer: (step: () => unknown): void => void steps.push(step),
    /** Adds a step that `run` takes first, at the same time as the others of this kind. */
    together: (step: () => unknown): void => void first.push(step),
    adopt<T>(part: T, close: (part: T) => unknown): T {
      steps.push(() => close(part));
      return part;
    },
    run,
    [Symbol.asyncDispose]: run,
  };
}
