import { onTestFinished } from "vitest";
import type { Post, PostResult } from "../../src/sandbox/traffic/answers.ts";
import { scenario } from "../../src/sandbox/traffic/scenario.ts";
import {
  createSender,
  type Sender,
  type SenderSettings,
} from "../../src/sandbox/traffic/sender.ts";
import type { RelayPlace } from "./relay-place.ts";
import { webhookSecret } from "./relay-settings.ts";

/**
 * Tries again until the relay is back: for tests that stop it under load. Far apart, so that
 * starting has the processor.
 */
export const untilItIsBack = { tries: 400, waitMs: 400 };

/** Posts of `messages` messages, all signed rightly, and no id with two bodies. */
export const signedPosts = (seed: number | string, messages = 1_000_000) =>
  scenario({
    seed,
    start: Date.now(),
    messages,
    alive: 12,
    mix: { wronglySigned: 0, altered: 0 },
  });

/**
 * The sandbox's sender of signed events to the source `main`, closed at the test's end.
 * `acknowledged`: the relay's 2xx by event id.
 */
export function openSender(
  relay: Pick<RelayPlace, "webhookUrl">,
  settings: Pick<SenderSettings, "concurrency"> & Partial<SenderSettings>,
) {
  const sender = createSender({
    url: relay.webhookUrl,
    signature: { service: "acme" },
    secret: webhookSecret,
    // A try that gives up on a slow machine is repeated, and counts as a duplicate.
    timeoutMs: 60_000,
    retry: { tries: 16, waitMs: 400 },
    ...settings,
  });
  onTestFinished(() => sender.close());
  const acknowledged = new Map<string, { accepted: number; duplicate: number }>();
  const note = ({ expected }: Post, result: PostResult): void => {
    if (expected.of !== "event" || result.kind !== "answered") return;
    const { answer } = result;
    if (answer !== "accepted" && answer !== "duplicate") return;
    const counts = acknowledged.get(expected.id) ?? { accepted: 0, duplicate: 0 };
    counts[answer] += 1;
    acknowledged.set(expected.id, counts);
  };
  const run: Sender["run"] = (posts, { signal, onResult } = {}) =>
    sender.run(posts, {
      ...(signal && { signal }),
      onResult(post, result) {
        note(post, result);
        onResult?.(post, result);
      },
    });
  return { ...sender, run, acknowledged };
}
