import { onTestFinished } from "vitest";
import { createSender, type Sender, type SenderSettings } from "../../src/sandbox/traffic/sender.ts";
import type { RelayProcess } from "./relay-process.ts";
import { webhookSecret } from "./relay-settings.ts";

const realClock = {
  now: Date.now,
  after(ms: number, run: () => void) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

/** Tries again until the relay is back: for tests that stop it under load. Far apart, so that starting has the processor. */
export const untilItIsBack = { tries: 400, firstMs: 50, longestMs: 400 };

/** The sandbox's sender of signed events to the source `main`, closed at the test's end. */
export function openSender(relay: RelayProcess, settings: Pick<SenderSettings, "concurrency"> & Partial<SenderSettings>): Sender {
  const sender = createSender({
    url: relay.webhookUrl,
    signature: { service: "acme" },
    secret: webhookSecret,
    clock: realClock,
    // A try that gives up on a slow machine is repeated, and counts as a duplicate.
    timeoutMs: 60_000,
    ...settings,
  });
  onTestFinished(() => sender.close());
  return sender;
}
