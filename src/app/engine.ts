import type { Settings } from "../config/schema.ts";
import type { DispatcherParts } from "../deliver/dispatcher.ts";
import type { Budgets } from "../model/budget.ts";
import type { Clock } from "../model/clock.ts";
import type { DatabaseFacts } from "../model/database.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { LogStream } from "../observe/logger.ts";
import type { Store } from "../store/create-store.ts";
import { type Rules, type StoreHooks, StoreRefused } from "../store/port.ts";
import type { Presence } from "../store/postgres/server.ts";
import type { StorageSettings } from "../store/settings.ts";
import type { Cleanup } from "./cleanup.ts";
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
export const roles = ["receive", "work", "both"] as const;
export type Role = (typeof roles)[number];

/** Throws `StoreRefused` for a role that the engine does not support: one process opens a file, and it does everything. */
export function checkRole(role: Role, { driver }: StorageSettings): void {
  if (role !== "both" && driver === "sqlite") {
    throw new StoreRefused(`a process with the role ${role} alone needs storage.driver postgres: a file is one process's, which does both`);
  }
}

/** How a relay runs. */
export interface Run {
  readonly settings: Settings;
  readonly log: LogStream;
  /** Reads the settings file again; throws `SettingsError`. Without it, only `reload(settings)` changes the settings. */
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
  /** How deliveries are queued, what is stored of their destinations, and which routes this process delivers. */
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
