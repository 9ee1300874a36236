import { StoreRefused } from "../store/port.ts";
import type { StorageSettings } from "../store/settings.ts";

/**
 * What a process of the relay does.
 *
 * | role | serves | does |
 * |---|---|---|
 * | `receive` | webhooks, `/v1`, pages for operators | accepts, answers, sends when asked to |
 * | `work` | pages for operators | plans, delivers, hydrates, reconciles, looks after the store |
 * | `both` | all | all |
 */
export const roles = ["receive", "work", "both"] as const;
export type Role = (typeof roles)[number];

/** Throws `StoreRefused` for a role of which the engine has no use: a file has one process, which does everything. */
export function checkRole(role: Role, { driver }: StorageSettings): void {
  if (role !== "both" && driver === "sqlite") {
    throw new StoreRefused(`a process with the role ${role} alone needs storage.driver redis: a file is one process's, which does both`);
  }
}
