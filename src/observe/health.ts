import { createRequire } from "node:module";
import type { Alarm, AlarmChange } from "../model/attention.ts";
import { lookupFunction } from "../net/name-lookup.ts";

/** Whether the relay is ready, and if not, why. */
export type Health = ReturnType<typeof createHealth>;

export function createHealth() {
  let failure: string | null = null;
  let draining = false;
  const listeners: (() => void)[] = [];
  return {
    stored(): void {
      failure = null;
      for (const notify of listeners) notify();
    },
    storeFailed(reason: string): void {
      failure = reason;
    },
    drain(): void {
      draining = true;
    },
    storing: () => failure === null,
    /** Calls `listener` when writes succeed again. */
    onRecovered: (listener: () => void) => void listeners.push(listener),
    /** For `/readyz`: ready while events can be stored and the relay is not stopping. */
    report() {
      const store: "ok" | "failing" = failure === null ? "ok" : "failing";
      return { ready: failure === null && !draining, store, reason: failure, draining };
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
const alertTimeoutMs = 10_000;

/** Posts JSON once. Rejects, with nothing of the URL in the message, unless a 2xx comes back in time. */
export async function postAlert(url: string, body: string): Promise<void> {
  // Loaded with the first alert: it takes a tenth of a relay's start time.
  const { Agent, request } = createRequire(import.meta.url)("undici") as typeof import("undici");
  const dispatcher = new Agent({ allowH2: false, connect: { lookup: lookupFunction() } });
  let status: number;
  try {
    const answer = await request(url, {
      dispatcher,
      method: "POST",
      headers: { "content-type": "application/json", "user-agent": "wamid-relay" },
      body,
      signal: AbortSignal.timeout(alertTimeoutMs),
    });
    status = answer.statusCode;
    // Closed, not read: it may be endless.
    answer.body.on("error", () => {}).destroy();
  } catch (error) {
    const { name, code } = error as { name?: string; code?: unknown };
    throw new Error(
      `no answer (${name === "TimeoutError" ? `none within ${alertTimeoutMs / 1000} s` : typeof code === "string" ? code : name})`,
    );
  } finally {
    await dispatcher.destroy();
  }
  if (status < 200 || status > 299) throw new Error(`answered ${status}`);
}
