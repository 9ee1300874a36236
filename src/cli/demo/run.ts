import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createCleanup } from "../../app/cleanup.ts";
import { RelayClient } from "../../client/relay-client.ts";
import { type Downstream, type Failure, startDownstream } from "../../sandbox/downstream/downstream.ts";
import { withCommas } from "../output.ts";
import { auditCheck, type Check } from "./checks.ts";
import { playMeta } from "./meta.ts";
import { playService } from "./play-service.ts";
import { type DemoCounts, type Progress, startWatch } from "./progress.ts";
import { answeredPath, demoSettings, everythingPath, freePort, metaDemoSettings, secretNames, startRelay } from "./relay.ts";
import type { Amounts } from "./stage.ts";

interface DemoOptions extends Amounts {
  readonly format: "standard" | "meta";
  /** An empty folder for the settings, the database and the relay's log. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Ends the demo early; it then rejects with the signal's reason. */
  readonly signal: AbortSignal;
  readonly progress: Progress;
  /** Called with the result while all parts still run, such as to show the console; they end once it resolves. */
  readonly stay?: (result: DemoResult, console: DemoConsole, signal: AbortSignal) => Promise<void>;
}

export interface DemoResult {
  readonly tookMs: number;
  readonly counts: DemoCounts;
  readonly checks: readonly Check[];
}

/** Where the console of the demo's relay is, and two ways to sign in. */
export interface DemoConsole {
  readonly url: string;
  /** Signs in once, within a minute. */
  readonly link: string;
  readonly token: string;
}

/** How long the last deliveries may take, in milliseconds. */
const settleWithinMs = 60_000;

const plays = {
  standard: { settings: demoSettings, play: playService, signed: (secret: string) => ({ secrets: { [answeredPath]: secret } }) },
  meta: { settings: metaDemoSettings, play: playMeta, signed: (secret: string) => ({ appSecrets: { [everythingPath]: secret } }) },
};

/**
 * Service, client, relay and downstream in one go: sends through the client, and their statuses back through the relay.
 * Everything it started has ended when it returns or throws. Throws CommandFailed when the relay does not start or ends
 * by itself.
 */
export async function runDemo({ format, folder, env, signal: stop, progress, stay, ...amounts }: DemoOptions): Promise<DemoResult> {
  await using parts = createCleanup();
  const { settings, play, signed } = plays[format];
  const secrets = { webhook: randomText(), token: randomText(), answered: `whsec_${randomBytes(24).toString("base64")}` };
  const downstream = parts.adopt(await startDownstream(signed(secrets.answered)), (one) => one.close());

  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const settingsPath = join(folder, "relay.yaml");
  writeFileSync(settingsPath, settings({ port, databasePath: join(folder, "relay.db"), downstreamUrl: downstream.url }));
  const secretEnv = {
    [secretNames.webhook]: secrets.webhook,
    [secretNames.token]: secrets.token,
    [secretNames.answered]: secrets.answered,
  };
  const relay = parts.adopt(
    await startRelay({ settingsPath, logPath: join(folder, "relay.log"), url, env: { ...env, ...secretEnv }, signal: stop }),
    (one) => one.stop(),
  );
  const signal = AbortSignal.any([stop, relay.ended]);
  const control = new RelayClient({ url, token: secrets.token, signal });

  let began = Date.now();
  const { counts, checks } = await play({
    ...amounts,
    url,
    secret: secrets.webhook,
    control,
    downstream,
    signal,
    adopt: parts.adopt,
    begin({ service, sent, log }) {
      progress.say(`service ${service}, relay ${url}, downstream ${downstream.url}, settings and data in ${folder}`);
      began = Date.now();
      const watch = parts.adopt(startWatch({ client: control, downstream, progress, began, sent, log, signal }), (one) => one.stop());
      parts.defer(scheduleTroubles(downstream, watch.setDownstream));
      return async () => {
        const stats = await watch.settled(settleWithinMs);
        return { stats, counts: watch.counts(stats) };
      };
    },
  });
  const result = { tookMs: Date.now() - began, counts, checks: [...checks, auditCheck(await control.audit())] };
  if (stay !== undefined) {
    const page = `${url}/console/`;
    const { code } = await control.createSessionCode();
    await stay(result, { url: page, link: `${page}#code=${code}`, token: secrets.token }, signal);
  }
  return result;
}

const randomText = () => randomBytes(24).toString("base64url");

/** Changes of the downstream's behavior, `at` milliseconds after the first send; `failure` null: it recovers. */
export const troubles: readonly { readonly at: number; readonly name: string; readonly failure: Failure | null }[] = [
  { at: 1_500, name: "cuts connections", failure: "reset" },
  { at: 2_000, name: "answers 503", failure: { status: 503 } },
  { at: 4_000, name: "is well again", failure: null },
];

/** Makes the downstream fail and recover on schedule; `report` receives each change. The returned function cancels the rest. */
function scheduleTroubles(downstream: Downstream, report: (name: string) => void): () => void {
  const timers = troubles.map(({ at, name, failure }) =>
    setTimeout(() => {
      downstream.recover();
      if (failure !== null) downstream.fail(failure);
      report(name);
    }, at),
  );
  return () => {
    for (const timer of timers) clearTimeout(timer);
  };
}

/** The summary for people. */
export function summaryLines({ tookMs, checks }: DemoResult): string[] {
  const bad = checks.filter((check) => !check.ok).length;
  const width = Math.max(...checks.map(({ what }) => what.length));
  return [
    "",
    ...checks.map((check) => `  ${check.ok ? "ok      " : "MISMATCH"}  ${check.what.padEnd(width)}  ${seenText(check)}`),
    "",
    bad === 0
      ? `Every sum matches: each event stored once, delivered, in order, byte for byte, each status true (${(tookMs / 1000).toFixed(1)} s).`
      : `${bad} of ${checks.length} sums do not match.`,
  ];
}

/** How to look at what the demo did. */
export function consoleLines({ url, link, token }: DemoConsole): string[] {
  return [
    "",
    "Look at it in the console:",
    `  ${link}`,
    "",
    `This link works once, within a minute. Later, open ${url} and sign in with the token ${token}.`,
    "The relay stays up until Ctrl-C.",
  ];
}

function seenText({ seen }: Check): string {
  return Object.entries(seen)
    .map(([by, count]) => `${by} ${withCommas(count)}`)
    .join(" · ");
}

/** How to run a command: only source files run in a clone, and only compiled files in a package. */
const command = import.meta.url.endsWith(".ts") ? "npm run -s relay --" : "wamid-relay";

/** Suggestions for after the demo. */
export const whatNext: readonly string[] = [
  "",
  "What to try next:",
  ...[
    [`${command} demo --keep`, "keep the demo's settings, database and log"],
    [`${command} demo --seed another`, "run it again with other people and other faults"],
    [`${command} sandbox`, "run the messaging service alone, to develop your own sender"],
    [`${command} --help`, "list all commands"],
    ["README.md", "go from here to a deployed endpoint"],
  ].map(([what = "", why]) => `  ${what.padEnd(command.length + 22)}${why}`),
];
