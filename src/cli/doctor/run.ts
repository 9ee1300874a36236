import type { RelayClientError } from "../../client/connection.ts";
import { loadParts } from "../../config/load.ts";
import type { Settings } from "../../config/schema.ts";
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
  if (settings === null) {
    const server = loadParts(config, env, envFile)?.server ?? null;
    return [...findings, ...(await checkReload(server && controlAddress(server), { config, envFile, isValid: false }))];
  }
  // The slow part goes on while store and relay are read.
  const probing = offline ? null : Promise.all([probeDestinations(settings), checkServices(settings)]);
  const store = await examineStore(settings.storage, deep);
  const relay = await findRelay({ config, envFile, isValid: true }, settings, store);
  const { report, findings: unread } = await reportOf(relay.at, settings, config, store.isReadable);
  const acting = actingAt(relay.at, settings, options);
  const reported =
    report === null
      ? []
      : [
          assessBacklog(report.groups),
          ...assessAttention(report.attention),
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
    ...assessClock(destinations),
  ];
}

/** What the relay reports at `at`, else its store. Null: neither can be read, for the reason in a finding. */
async function reportOf(at: Reachable | null, settings: Settings, config: string, isReadable: boolean) {
  let report: Report | null = null;
  const client = at === null ? null : authorized(at, settings.control.tokens, "read");
  const why = `no token in ${config} has the scope read for all accounts (control.tokens)`;
  const findings = at !== null && client === null ? [skip("control API", why)] : [];
  if (client !== null) {
    try {
      report = await readReport(client);
    } catch (error) {
      findings.push(unreported(error, config));
    }
  }
  if (report === null && isReadable) {
    const read = async () => {
      const store = await readStore(settings);
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
    return skip("control API", "a process with the role work has no control API; give doctor the port of one that receives");
  if (status !== 401) return fail("attention", failure.message, "see the log of the relay");
  return skip("control API", `the relay refuses the tokens of ${config} (401: ${message}); if you changed them, send SIGHUP to the relay`);
}
