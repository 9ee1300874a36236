import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "../../event/clock.ts";
import { startDownstream } from "../../sandbox/downstream/downstream.ts";
import { unexpectedOfPost } from "../../sandbox/traffic/expected-answers.ts";
import { scenario } from "../../sandbox/traffic/scenario.ts";
import { createSender } from "../../sandbox/traffic/sender.ts";
import { type Check, checkSums } from "./checks.ts";
import { createLateRegistration, messagesOf } from "./messages.ts";
import type { DemoCounts, Progress } from "./progress.ts";
import { createRelayApi } from "./relay-api.ts";
import { freePort, startRelay } from "./relay-process.ts";
import { answeredPath, demoSettings, secretNames } from "./relay-settings.ts";
import { scheduleTroubles } from "./troubles.ts";
import { startWatch } from "./watch.ts";

export interface DemoOptions {
  readonly seed: string;
  /** Our messages; each makes between one and three events, and the rest of the mix comes on top. */
  readonly messages: number;
  /** Posts per second. */
  readonly rate: number;
  /** An empty folder for the settings, the database and the relay's log. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Ends the demo early; it then rejects with the signal's reason. */
  readonly signal: AbortSignal;
  readonly progress: Progress;
}

export interface DemoResult {
  readonly tookMs: number;
  readonly counts: DemoCounts;
  readonly checks: readonly Check[];
}

const mix = { outOfOrder: 0.15, duplicated: 0.12, altered: 0.02, automation: 0.06, truncated: 0.01, malformed: 0.02, wronglySigned: 0.01 };
/** How long the last deliveries may take after the last post, in milliseconds: the demo must end within 30 s. */
const settleWithinMs = 15_000;

/**
 * Relay, sender and downstream in one go. Everything it started has ended when it returns or throws.
 * Throws CommandFailed when the relay does not start or ends by itself.
 */
export async function runDemo({ seed, messages, rate, folder, env, signal: asked, progress }: DemoOptions): Promise<DemoResult> {
  await using parts = new AsyncDisposableStack();
  const secrets = { webhook: randomText(), token: randomText(), answered: `whsec_${randomBytes(24).toString("base64")}` };
  const downstream = parts.adopt(await startDownstream({ secrets: { [answeredPath]: secrets.answered } }), (one) => one.close());

  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const settingsPath = join(folder, "relay.yaml");
  writeFileSync(settingsPath, demoSettings({ port, databasePath: join(folder, "relay.db"), downstreamUrl: downstream.url }));
  const secretEnv = {
    [secretNames.webhook]: secrets.webhook,
    [secretNames.token]: secrets.token,
    [secretNames.answered]: secrets.answered,
  };
  const relay = parts.adopt(
    await startRelay({ settingsPath, logPath: join(folder, "relay.log"), url, env: { ...env, ...secretEnv }, signal: asked }),
    (one) => one.stop(),
  );
  progress.say(`relay ${url}, downstream ${downstream.url}, settings and data in ${folder}`);
  const signal = AbortSignal.any([asked, relay.ended]);
  const api = createRelayApi(url, secrets.token);

  const posts = [...scenario({ seed, start: Date.now(), messages, mix })];
  const { early, late } = messagesOf(posts);
  await api.track(early, signal);
  const registration = createLateRegistration(late, (some) => api.track(some, signal));
  const sender = parts.adopt(
    createSender({ url: `${url}/webhooks/main`, signature: { service: "acme" }, secret: secrets.webhook, clock, concurrency: 32, rate }),
    (one) => one.close(),
  );

  const counted = { sent: 0, accepted: 0, duplicate: 0, quarantined: 0, unauthorized: 0 };
  const unexpected: string[] = [];
  const began = Date.now();
  const watch = parts.adopt(startWatch({ api, downstream, progress, began, counted, signal }), (one) => one.stop());
  parts.defer(scheduleTroubles(downstream, watch.setDownstream));
  const summary = await sender.run(posts, {
    signal,
    onResult(post, result) {
      counted.sent += 1;
      if (result.kind === "answered" && result.answer !== null) counted[result.answer] += 1;
      const fault = unexpectedOfPost(post, result);
      if (fault !== null) unexpected.push(fault);
      registration.seen(post);
    },
  });
  signal.throwIfAborted();
  await registration.finish();
  const stats = await watch.settled(settleWithinMs);
  const checks = checkSums({ posts, summary, acknowledged: sender.acknowledged, unexpected, stats, downstream });
  return { tookMs: Date.now() - began, counts: watch.counts(stats), checks };
}

const clock: Clock = {
  now: () => Date.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    return () => clearTimeout(timer);
  },
};

const randomText = () => randomBytes(24).toString("base64url");
