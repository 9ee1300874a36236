import type { Random } from "./ids.ts";

const outbound = ["pending", "sent", "failed", "delivered", "read"] as const;

/** Ranked apart from the relay's table, so that both cannot share a mistake. */
export const messageStatuses = [...outbound, "received"] as const;
export type MessageStatus = (typeof messageStatuses)[number];

/**
 * Later in the list. `failed` comes before `delivered`, as another device of the same person may
 * get the message.
 */
export function supersedes(from: MessageStatus, to: MessageStatus): boolean {
  return from !== "received" && to !== "received" && outbound.indexOf(from) < outbound.indexOf(to);
}

export function reaches(status: MessageStatus, target: MessageStatus): boolean {
  return status === target || supersedes(target, status);
}

export function isReported(status: MessageStatus): boolean {
  return status !== "pending" && status !== "received";
}

export interface LifeStep {
  readonly status: MessageStatus;
  readonly errorCode?: string | number;
}

export const sent: LifeStep = { status: "sent" };
export const delivered: LifeStep = { status: "delivered" };
export const read: LifeStep = { status: "read" };
export const failed = (errorCode: string | number): LifeStep => ({ status: "failed", errorCode });

/** What is left of 1 is read. Three in ten have read receipts off. */
const usualLives = { delivered: 0.3, failed: 0.08, failedThenDelivered: 0.02 };
export type LifeShares = Readonly<typeof usualLives>;

/** Numbers, numeric text and words, as met in the field. */
const failureCodes = [131026, 131047, "131049", 131056, "130429", "rate_limited"] as const;

/** After `pending`, in the order they happen. */
export function drawLife(random: Random, shares: LifeShares = usualLives): readonly LifeStep[] {
  const drawn = random.next();
  const failure = () => failed(random.pick(failureCodes));
  if (drawn < shares.delivered) return [sent, delivered];
  if (drawn < shares.delivered + shares.failed)
    return random.chance(0.3) ? [failure()] : [sent, failure()];
  if (drawn < shares.delivered + shares.failed + shares.failedThenDelivered)
    return [sent, failure(), delivered];
  return [sent, delivered, read];
}
