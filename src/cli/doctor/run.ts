import { loadParts } from "../../config/load.ts";
import type { Settings } from "../../config/schema.ts";
import { controlAddress, readStore } from "../reach-relay.ts";
import { type Finding, orFail, skip } from "./finding.ts";
import { assessClock, checkServices, type Probed, probeDestinations } from "./network.ts";
import { checkReload, findRelay, type RelayFound } from "./relay.ts";
import {
  type Acting,
  actingAt,
  assessAttention,
  assessBacklog,
  assessSources,
  checkCallbacks,
  checkHandshakes,
  type Report,
  readReport,
} from "./report.ts";
import { assessExpiries, assessSecrets, checkReaders, checkSettings } from "./settings.ts";
import { examineStore, type StoreFound } from "./store.ts";

interface DoctorOptions {
  readonly config: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly envFile?: string | undefined;
  readonly deep: boolean;
  readonly offline: boolean;
  readonly handshake: boolean;
}

interface Facts extends DoctorOptions {
  readonly settings: Settings;
  readonly store: StoreFound;
  readonly relay: RelayFound;
  /** Of the relay, or of its store while none runs. Null: neither can be read. */
  readonly report: Report | null;
  readonly acting: Acting;
  /** Null with `offline`. */
  readonly destinations: Promise<readonly Probed[]> | null;
  readonly now: number;
}

type Check<Read> = (read: Read) => readonly Finding[] | Promise<readonly Finding[]>;

/** In the order shown, as the other checks. */
const checksOfReport: readonly Check<Facts & { readonly report: Report }>[] = [
  ({ report, settings }) => assessBacklog(report.groups, settings.routes),
  ({ report }) => assessAttention(report.attention),
  ({ report, acting }) => checkHandshakes(report.destinations, acting),
  ({ report }) => assessSources(report.sources, report.at),
  ({ settings, acting }) => checkCallbacks(settings.sources, acting),
];

const checks: readonly Check<Facts>[] = [
  ({ config, settings }) => [checkReaders(config, settings)],
  ({ store }) => store.findings,
  ({ relay }) => relay.findings,
  ({ relay, config, envFile }) => checkReload(relay.at, { config, envFile, isValid: true }),
  async (facts) => {
    const { report } = facts;
    return report === null ? [] : (await Promise.all(checksOfReport.map((check) => check({ ...facts, report })))).flat();
  },
  ({ report, settings, relay }) => assessSecrets(settings.sources, report?.secrets ?? [], report?.at, relay.client !== null),
  ({ destinations }) => destinations?.then((found) => found.flatMap(({ findings }) => findings)) ?? [skip("destination", "--offline")],
  ({ settings, now }) => assessExpiries(settings, now),
  ({ settings, offline }) => (offline ? [skip("service", "--offline")] : checkServices(settings)),
  async ({ destinations, report, now }) => assessClock(now, report?.newestEventAt ?? null, (await destinations) ?? []),
];

export async function runChecks(options: DoctorOptions): Promise<Finding[]> {
  const { config, env, envFile, deep, offline } = options;
  const { settings, findings } = checkSettings(config, { env, envFile });
  if (settings === null) {
    const server = loadParts(config, env, envFile)?.server ?? null;
    return [...findings, ...(await checkReload(server && controlAddress(server), { config, envFile, isValid: false }))];
  }
  // The slow part goes on while store and relay are read.
  const destinations = offline ? null : probeDestinations(settings);
  const store = await examineStore(settings.storage, deep);
  const relay = await findRelay(config, settings, store);
  let report: Report | null = null;
  const unread = await orFail("attention", "", "see the log of the relay; doctor --deep checks a file", async () => {
    const client = relay.client ?? (store.isReadable ? await readStore(settings) : null);
    if (client === null) return [];
    report = await readReport(client).finally(client.close);
    return [];
  });
  const acting = actingAt(relay.at, settings, options);
  const facts: Facts = { ...options, settings, store, relay, report, acting, destinations, now: Date.now() };
  const found = await Promise.all(checks.map((check) => check(facts)));
  return [...findings, ...unread, ...found.flat()];
}
