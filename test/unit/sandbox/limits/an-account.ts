import { ApiFault } from "../../../../src/sandbox/api/fault.ts";
import { createLimits } from "../../../../src/sandbox/limits/limits.ts";
import type { AccountRecord, Plan } from "../../../../src/sandbox/world/records.ts";
import { createWorld } from "../../../../src/sandbox/world/world.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";

/** 2026-11-15T12:00:30.000Z */
export const start = Date.UTC(2026, 10, 15, 12, 0, 30);

/** One account with the key `k-1`, its limits, and the changes that a state file would see. */
export function anAccount({
  plan = "escala",
  now = start,
  isUnlimited = false,
}: {
  plan?: Plan;
  now?: number;
  isUnlimited?: boolean;
} = {}) {
  const clock = createManualClock(now);
  const changes: string[] = [];
  const world = createWorld({ changed: (kind, id) => changes.push(`${kind} ${id}`) });
  const limits = createLimits({ world, clock, isUnlimited });
  const add = (name: string, keys: readonly string[]): AccountRecord => {
    const account: AccountRecord = {
      id: name,
      account: name,
      createdAt: now,
      plan,
      contactLimit: null,
      isConnected: true,
      numbers: [],
      usage: { month: "2026-11", apiCalls: 0, webhookDeliveries: 0, automationSteps: 0, automationRequests: 0 },
    };
    world.accounts.put(account);
    for (const key of keys) world.keys.put({ id: `id of ${key}`, account: name, createdAt: now, key, label: "", revokedAt: null });
    return account;
  };
  const account = add("main", ["k-1"]);
  changes.length = 0;
  return { clock, world, limits, account, add, changes };
}

/** The answer that `act` is refused with; null when it is not. */
export function refusal(act: () => unknown): ApiFault | null {
  try {
    act();
    return null;
  } catch (error) {
    if (error instanceof ApiFault) return error;
    throw error;
  }
}
