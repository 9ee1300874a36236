import type { ReadingSettings } from "../../app/reading.ts";
import type { RelayClientError } from "../../client/connection.ts";
import { loadParts } from "../../config/load.ts";
import type { TokenSettings } from "../../config/schema.ts";
import { failureOf, type Reachable } from "../control-client.ts";
import { isForUser } from "../io.ts";
import { authorized, controlAddress, readStore } from "../reach-relay.ts";
import { type Finding, fail, orFail, skip } from "./finding.ts";
import { assessClock, checkServices, probeDestinations } from "./network.ts";
import { checkReload, findRelay } from "./relay.ts";
import {
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
import { examineStore } from "./store.ts";

interface DoctorOptions {
  readonly config: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly envFile?: string | undefined;
  readonly deep: boolean;
  readonly offline: boolean;
  readonly handshake: boolean;
}

export async function runChecks(options: DoctorOptions): Promise<Finding[]> {
  const { config, env, envFile, deep, offline } = options;
  const { settings, findings } = checkSettings(config, { env, envFile });
  if (settings === null) return [...findings, ...(await checkRunning(options))];
  // The slow part goes on while store and relay are read.
  const probing = offline
    ? null
    : Promise.all([probeDestinations(settings), checkServices(settings)]);
  const store = await examineStore(settings.storage, deep);
  const relay = await findRelay({ config, envFile, isValid: true }, settings, store);
  const { report, findings: unread } = await reportOf(
    relay.at,
    settings.control.tokens,
    config,
    store.isReadable ? settings : null,
  );
  const acting = actingAt(relay.at, settings, options);
  const reported =
    report === null
      ? []
      : [
          ...assessReport(report),
          ...(await checkHandshakes(report.destinations, acting)),
          ...assessSources(report.sources, report.at),
          ...(await checkCallbacks(settings.sources, acting)),
          ...assessSecrets(report.secrets, report.at),
        ];
  const [destinations, services] = (await probing) ?? [
    [{ name: "", findings: [skip("destination", "--offline")], skewMs: null }],
    [skip("service", "--offline")],
  ];
  return [
    ...findings,
    checkReaders(config, settings),
    ...store.findings,
    ...relay.findings,
    ...unread,
    ...reported,
    ...destinations.flatMap((probed) => probed.findings),
    ...assessExpiries(settings, Date.now()),
    ...services,
    ...assessClock(destinations, report === null ? 0 : aheadOf(report)),
  ];
}

/**
 * Of settings with faults: the relay may run well with those that it has. Routes and accounts are
 * its own.
 */
async function checkRunning({ config, env, envFile, deep }: DoctorOptions): Promise<Finding[]> {
  const { server = null, storage = null, tokens = [] } = loadParts(config, env, envFile) ?? {};
  const files = { config, envFile, isValid: false };
  // Without its store, the relay that answers may be another one, which must not get the token.
  if (server === null || storage === null)
    return checkReload(server && controlAddress(server), files);
  const store = await examineStore(storage, deep);
  const relay = await findRelay(files, { server }, store);
  const { report, findings } = await reportOf(relay.at, tokens, config, null);
  return [
    ...store.findings,
    ...relay.findings,
    ...findings,
    ...(report === null ? [] : assessReport(report)),
  ];
}

/** How far the last event lies in the relay's future, in ms; 0: in the past. */
const aheadOf = ({ secrets, at }: Report): number =>
  Math.max(0, ...secrets.map(({ lastAt }) => (lastAt === null ? 0 : Date.parse(lastAt) - at)));

const assessReport = ({ groups, attention }: Report): Finding[] => [
  assessBacklog(groups),
  ...assessAttention(attention),
];

/**
 * What the relay reports at `at`, else the store of `readable`. Null: neither can be read, for the
 * reason in a finding.
 */
async function reportOf(
  at: Reachable | null,
  tokens: readonly TokenSettings[],
  config: string,
  readable: ReadingSettings | null,
) {
  let report: Report | null = null;
  const client = at === null ? null : authorized(at, tokens, "read");
  const why = `no token in ${config} has the scope read for all accounts (control.tokens)`;
  const findings = at !== null && client === null ? [skip("control API", why)] : [];
  if (client !== null) {
    try {
      report = await readReport(client);
    } catch (error) {
      findings.push(unreported(error, config));
    }
  }
  if (report === null && readable !== null) {
    const read = async () => {
      const store = await readStore(readable);
      report = await readReport(store).finally(store.close);
      return [];
    };
    findings.push(...(await orFail("attention", "", "doctor --deep checks a file", read)));
  }
  return { report: report as Report | null, findings };
}

function unreported(error: unknown, config: string): Finding {
  const failure = failureOf(error);
  if (!isForUser(failure)) throw failure;
  const { status, message } = error as RelayClientError;
  if (status === 404)
    return skip(
      "control API",
      "a process with the role work has no control API; give doctor the port of one that receives",
    );
  if (status !== 401) return fail("attention", failure.message, "see the log of the relay");
  return skip(
    "control API",
    `the relay refuses the tokens of ${config} (401: ${message}); if you changed them, send SIGHUP to the relay`,
  );
}
