import { minuteMs } from "./minute-window.ts";

/** "More than 20 requests per minute from one IP address with invalid keys blocks that IP for one minute." */
const mostInMinute = 20;

export interface BadKeys {
  isBlocked(address: string, now: number): boolean;
  /** Notes a request without a valid key. True when it is the one too many: from it on the address is blocked. */
  add(address: string, now: number): boolean;
  forget(): void;
}

/**
 * The sandbox's choice: the minute slides, so that no 21 bad calls within 60 s get through wherever they begin; requests
 * without a key count as those with a wrong one do; what comes during the block is not counted, and does not prolong it.
 */
export function createBadKeys(): BadKeys {
  const times = new Map<string, number[]>();
  const blockedUntil = new Map<string, number>();
  let sweptAt = Number.NEGATIVE_INFINITY;

  /** Addresses that are quiet again are not kept forever. */
  const sweep = (now: number): void => {
    if (Math.abs(now - sweptAt) < minuteMs) return;
    sweptAt = now;
    for (const [address, until] of blockedUntil) if (until <= now) blockedUntil.delete(address);
    for (const [address, list] of times) if (!list.some((at) => at > now - minuteMs)) times.delete(address);
  };
  return {
    isBlocked: (address, now) => (blockedUntil.get(address) ?? 0) > now,
    add(address, now) {
      sweep(now);
      const recent = (times.get(address) ?? []).filter((at) => at > now - minuteMs);
      recent.push(now);
      if (recent.length <= mostInMinute) {
        times.set(address, recent);
        return false;
      }
      times.delete(address);
      blockedUntil.set(address, now + minuteMs);
      return true;
    },
    forget() {
      times.clear();
      blockedUntil.clear();
    },
  };
}
