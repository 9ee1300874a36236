import type { Random } from "./ids.ts";

const outbound = ["pending", "sent", "failed", "delivered", "read"] as const;

/** Ranked apart from the relay's table, so that both cannot share a mistake. */
export const messageStatuses = [...outbound, "received"] as const;
export type MessageStatus = (typeof messageStatuses)[number];

/** Later in the list. `failed` comes before `delivered`, as another device of the same person may get the message. */
export function supersedes(from: MessageStatus, to: MessageStatus): boolean {
  return from !== "received" && to !== "received" && outbound.indexOf(from) < outbound.indexOf(to);
}

export function reaches(status: MessageStatus, target: MessageStatus): boolean {
  return status === target || supersedes(target, status);
}

export function isReported(status: MessageStatus): boolean {
  return status !== "pending" && status !== "received";
}

export const lives = ["read", "delivered", "failed", "failed-then-delivered"] as const;
export type Life = (typeof lives)[number];

export interface LifeStep {
  readonly status: MessageStatus;
  readonly errorCode?: string | number;
}

/** What is left of 1 is `read`. Three in ten have read receipts off. */
export interface LifeShares {
  readonly delivered: number;
  readonly failed: number;
  readonly failedThenDelivered: number;
}

export const usualLives: LifeShares = { delivered: 0.3, failed: 0.08, failedThenDelivered: 0.02 };

/** Numbers, numeric text and words, as met in the field. */
const failureCodes = [131026, 131047, "131049", 131056, "130429", "rate_limited"] as const;

export function pickLife(random: Random, shares: LifeShares = usualLives): Life {
  const drawn = random.next();
  if (drawn < shares.delivered) return "delivered";
  if (drawn < shares.delivered + shares.failed) return "failed";
  if (drawn < shares.delivered + shares.failed + shares.failedThenDelivered) return "failed-then-delivered";
  return "read";
}

/** In the order they happen, after `pending`. */
export function messageLife(random: Random, life: Life = pickLife(random)): readonly LifeStep[] {
  const sent: LifeStep = { status: "sent" };
  const delivered: LifeStep = { status: "delivered" };
  const failed = (): LifeStep => ({ status: "failed", errorCode: random.pick(failureCodes) });
  switch (life) {
    case "read":
      return [sent, delivered, { status: "read" }];
    case "delivered":
      return [sent, delivered];
    case "failed":
      return random.chance(0.3) ? [failed()] : [sent, failed()];
    case "failed-then-delivered":
      return [sent, failed(), delivered];
  }
}
