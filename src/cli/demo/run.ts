import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createCleanup } from "../../app/engine.ts";
import { createRelay } from "../../app/relay.ts";
import { RelayClient } from "../../client/relay-client.ts";
import { loadSettings } from "../../config/load.ts";
import { logStream } from "../../observe/logger.ts";
import { type Downstream, type Failure, startDownstream } from "../../sandbox/downstream.ts";
import { startSandbox } from "../../sandbox/start-sandbox.ts";
import type { Io } from "../io.ts";
import { print, secondsText, withCommas } from "../output.ts";
import { acceptedBy, type Check, checkSums, createPostLog, type RelayStats } from "./checks.ts";
import { isRejected, peopleOf, play, sandboxOptions } from "./play.ts";
import { createProgress, type DemoCounts } from "./progress.ts";
import { type DemoFormat, demoSettings, everythingPath, sourceNames } from "./settings.ts";

interface DemoOptions {
  readonly format: DemoFormat;
  readonly seed: string;
  /** Messages sent by the client; of the service, a campaign and automation runs come on top. */
  readonly messages: number;
  readonly rate: number;
  /** Whether all parts stay up, with a link to the console, until the signal. */
  readonly stays: boolean;
  readonly json: boolean;
  /** An empty folder for the settings, the database and the relay's log. */
  readonly folder: string;
  /** Before the sums, it ends the demo, which then rejects with its reason. */
  readonly signal: AbortSignal;
}

const showEveryMs = 200;
const settleWithinMs = 60_000;

/**
 * Service, client, relay and downstream in one process: sends as the client, and follows their
 * statuses back through the relay. Returns whether the sums match. Everything it started has ended
 * when it resolves or rejects.
 */
export async function runDemo(
  { format, seed, messages, rate, stays, json, folder, signal }: DemoOptions,
  io: Io,
): Promise<boolean> {
  await using parts = createCleanup();
  const secrets = {
    webhook: randomText(),
    token: randomText(),
    downstream: `whsec_${randomBytes(24).toString("base64")}`,
  };
  const signed = { [everythingPath]: secrets.downstream };
  const downstream = parts.adopt(
    await startDownstream(format === "meta" ? { appSecrets: signed } : { secrets: signed }),
    (one) => one.close(),
  );

  const settingsPath = join(folder, "relay.yaml");
  const settings = demoSettings({
    format,
    databasePath: join(folder, "relay.db"),
    downstreamUrl: downstream.url,
    ...secrets,
  });
  writeFileSync(settingsPath, settings, { mode: 0o600 });
  const logFile = parts.adopt(openSync(join(folder, "relay.log"), "w"), closeSync);
  const relay = parts.adopt(
    await createRelay({ settings: loadSettings(settingsPath, {}), log: logStream(logFile) }),
    (one) => one.close(),
  );
  const url = `http://127.0.0.1:${(await relay.listen()).port}`;
  const control = new RelayClient({ url, token: secrets.token, signal });

  const log = createPostLog(format);
  const people = peopleOf(seed, format, messages);
  const sent = new Map<string, string>();
  const webhooks = [{ url: `${url}/webhooks/${sourceNames[format]}` }];
  const service = {
    ...sandboxOptions(format),
    seed,
    secret: secrets.webhook,
    webhooks,
    onPost: log.note,
  };
  const sandbox = parts.adopt(await startSandbox(service), (one) => one.close());

  const progress = json ? { show: () => undefined, say: () => undefined } : createProgress(io);
  if (stays) {
    const { code } = await control.createSessionCode();
    for (const line of consoleLines(`${url}/console/`, code, secrets.token))
      (json ? io.err : io.out)(line);
  }
  progress.say(
    `service ${sandbox.url}, relay ${url}, downstream ${downstream.url}, settings and data in ${folder}`,
  );
  const began = Date.now();
  let state = "is well";
  parts.defer(
    scheduleTroubles(downstream, (name) => {
      state = name;
    }),
  );
  const countsOf = ({ dispositions, duplicates, deliveries }: RelayStats): DemoCounts => ({
    sent: sent.size,
    posted: log.counts.posts,
    accepted: acceptedBy(dispositions),
    duplicate: duplicates,
    quarantined: dispositions.quarantined,
    refused: log.counts.refused,
    delivered: deliveries.delivered,
    retried: downstream.counts().failed,
    waiting: deliveries.waiting + deliveries.held,
  });

  async function onSent(wamid: string, reference: string): Promise<void> {
    sent.set(wamid, reference);
    if (format === "meta") return;
    const metadata = { shop: sent.size % 2 === 0 ? "north" : "south" };
    await control.track({ account: "main", wamid, reference, metadata });
  }

  let playedAt: number | null = null;
  const playing = play({ format, sandbox, people, rate, signal, onSent }).finally(() => {
    playedAt = Date.now();
  });
  playing.catch(() => {});
  for (let isLast = false; !isLast; await sleep(showEveryMs, undefined, { signal })) {
    const stats = await control.getStats();
    if (playedAt !== null) {
      await playing;
      // Events of the campaign stay parked: nobody registers its messages.
      const isSettled = stats.deliveries.waiting + stats.deliveries.held === 0;
      isLast = isSettled || Date.now() > playedAt + settleWithinMs;
    }
    progress.show((Date.now() - began) / 1000, countsOf(stats), state, isLast);
  }
  // Again: deliveries that settled during the last count may be missing from it.
  const stats = await control.getStats();
  const checks = checkSums({
    format,
    planned: people.recipients.filter(({ phone }) => !isRejected(phone)).length,
    sent,
    messages: sandbox.messages(),
    log,
    stats,
    tracked: await Array.fromAsync(control.messages()),
    audit: await control.audit(),
    downstream,
  });
  const result = {
    ok: checks.every(({ ok }) => ok),
    tookMs: Date.now() - began,
    counts: countsOf(stats),
    checks,
  };
  print(io, { json }, result, summaryLines);
  if (stays && !signal.aborted) await once(signal, "abort");
  return result.ok;
}

const randomText = () => randomBytes(24).toString("base64url");

/**
 * Changes of the downstream's behavior, `at` milliseconds after the first send; `failure` null: it
 * recovers.
 */
export const troubles: readonly {
  readonly at: number;
  readonly name: string;
  readonly failure: Failure | null;
}[] = [
  { at: 1_500, name: "cuts connections", failure: "reset" },
  { at: 2_000, name: "answers 503", failure: { status: 503 } },
  { at: 4_000, name: "is well again", failure: null },
];

/**
 * Makes the downstream fail and recover on schedule; `report` receives each change. The returned
 * function cancels the rest.
 */
function scheduleTroubles(downstream: Downstream, report: (name: string) => void): () => void {
  const timers = troubles.map(({ at, name, failure }) =>
    setTimeout(() => {
      downstream.recover();
      if (failure !== null) downstream.fail(failure);
      report(name);
    }, at),
  );
  return () => timers.forEach(clearTimeout);
}

function consoleLines(page: string, code: string, token: string): string[] {
  return [
    "Look at it in the console:",
    `  ${page}#code=${code}`,
    "",
    `This link works once, within a minute. Later, open ${page} and sign in with the token ${token}.`,
    "The relay stays up until Ctrl-C.",
    "",
  ];
}

/** How to run a command: only source files run in a clone, and only compiled files in a package. */
const command = import.meta.url.endsWith(".ts") ? "npm run -s relay --" : "wamid-relay";

export function summaryLines({
  tookMs,
  checks,
}: {
  readonly tookMs: number;
  readonly checks: readonly Check[];
}): string[] {
  const bad = checks.filter((check) => !check.ok).length;
  const width = Math.max(...checks.map(({ what }) => what.length));
  const seenText = ({ seen }: Check) =>
    Object.entries(seen).map(([by, count]) => `${by} ${withCommas(count)}`);
  const lines = checks.map(
    (check) =>
      `  ${check.ok ? "ok      " : "MISMATCH"}  ${check.what.padEnd(width)}  ${seenText(check).join(" · ")}`,
  );
  if (bad > 0) return ["", ...lines, "", `${bad} of ${checks.length} sums do not match.`];
  return [
    "",
    ...lines,
    "",
    `Every sum matches: each event stored once and delivered byte for byte, each status true (${secondsText(tookMs)}).`,
    "",
    "What to try next:",
    `  ${command} demo --keep     keep the demo's settings, database and log`,
    `  ${command} sandbox         run the messaging service alone, to develop your own sender`,
    `  ${command} --help          list all commands`,
    "  README.md: go from here to a deployed endpoint",
  ];
}
