import { setTimeout as wait } from "node:timers/promises";
import { startSandbox } from "../../src/sandbox/start-sandbox.ts";
import { answerParent } from "../process/child.ts";

/**
 * What the sandbox's memory grows by with each message, contacts apart; in a process of its own,
 * started with `--expose-gc`.
 */
export interface MemoryOrder {
  readonly messages: number;
}

export interface MemoryUse {
  /** Heap after so many messages less the heap after half of them, over the other half. */
  readonly bytesPerMessage: number;
  readonly heapMiB: number;
  readonly residentMiB: number;
}

answerParent(async (order) => {
  const { messages } = order as MemoryOrder;
  await using sandbox = await startSandbox({
    plan: "enterprise",
    isUnlimited: true,
    seed: "bench",
  });
  sandbox.clock.freeze();
  const half = await fill(sandbox, messages / 2);
  const whole = await fill(sandbox, messages / 2);
  const { rss } = process.memoryUsage();
  return {
    bytesPerMessage: (whole - half) / (messages / 2),
    heapMiB: whole / 1024 ** 2,
    residentMiB: rss / 1024 ** 2,
  } satisfies MemoryUse;
});

/**
 * Sends as campaigns to the same few thousand people, and lets all of it happen; gives the heap in
 * use.
 */
async function fill(
  sandbox: Awaited<ReturnType<typeof startSandbox>>,
  messages: number,
): Promise<number> {
  const phones = Array.from(
    { length: Math.min(messages, 5_000) },
    (_, n) => `+54911${String(n).padStart(6, "0")}0007`,
  );
  for (let sent = 0; sent < messages; sent += phones.length) {
    const campaign = { name: "bench", phones, perSecond: 5_000 };
    const { status } = await sandbox.control("POST", "/campaigns", campaign);
    if (status !== 201) throw new Error(`the campaign was answered ${status}`);
    sandbox.clock.advance(10 * 60_000);
    await wait(0);
  }
  (globalThis as { gc?: () => void }).gc?.();
  return process.memoryUsage().heapUsed;
}
