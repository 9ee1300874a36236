import type { Alarm, AlarmChange, StoreFailure } from "../model/attention.ts";
import { createPool } from "../net/connect.ts";
import { codeOf, exchange } from "../net/exchange.ts";

/** Whether the relay is ready, and if not, why. */
export type Health = ReturnType<typeof createHealth>;

export function createHealth() {
  let failure: StoreFailure | null = null;
  let draining = false;
  const listeners: (() => void)[] = [];
  return {
    stored(): void {
      failure = null;
      for (const notify of listeners) notify();
    },
    storeFailed(next: StoreFailure): void {
      failure = next;
    },
    failure: () => failure,
    drain(): void {
      draining = true;
    },
    storing: () => failure === null,
    /** Calls `listener` when writes succeed again. */
    onRecovered: (listener: () => void) => void listeners.push(listener),
    /** For `/readyz`: ready while events can be stored and the relay is not stopping. */
    report() {
      const store: "ok" | "failing" = failure === null ? "ok" : "failing";
      return {
        ready: failure === null && !draining,
        store,
        reason: failure?.text ?? null,
        draining,
      };
    },
  };
}

type AlarmView = Omit<Alarm, "since"> & { readonly since: string };

export function alertBody({ state, alarm }: AlarmChange, now: number): string {
  return JSON.stringify({ ...alarmView(alarm), state, at: new Date(now).toISOString() });
}

export function alarmView({ since, ...rest }: Alarm): AlarmView {
  return { ...rest, since: new Date(since).toISOString() };
}

/** For the whole exchange. */
const timeoutMs = 10_000;

/**
 * Posts JSON once. Rejects, with nothing of the URL in the message, unless a 2xx comes back in
 * time.
 */
export async function postAlert(url: string, body: string): Promise<void> {
  const { origin, pathname, search } = new URL(url);
  const pool = createPool(new URL(origin), {
    connections: 1,
    connectWithin: timeoutMs,
    allowPrivate: true,
  });
  const headers = { "content-type": "application/json", "user-agent": "wamid-relay" };
  try {
    // Its body may be endless.
    const answer = await exchange(
      pool,
      { method: "POST", path: `${pathname}${search}`, headers, body },
      { timeoutMs, maxBytes: 0 },
    );
    const { status } = { status: 0, ...answer };
    if (status === 0)
      throw new Error(
        `no answer (${"error" in answer ? codeOf(answer.error) : `none within ${timeoutMs / 1000} s`})`,
      );
    if (status < 200 || status > 299) throw new Error(`answered ${status}`);
  } finally {
    await pool.destroy(new Error("closed"));
  }
}
