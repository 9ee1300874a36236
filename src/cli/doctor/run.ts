import { existsSync, statSync } from "node:fs";
import { loadParts } from "../../config/load.ts";
import type { Settings } from "../../config/schema.ts";
import { type DatabaseFacts, databaseRisks } from "../../model/database.ts";
import { spanText } from "../../model/span-text.ts";
import { StoreMissing, StoreRefused } from "../../store/port.ts";
import type { PostgresStorage } from "../../store/settings.ts";
import type { ControlClient } from "../control-client.ts";
import { CommandFailed } from "../io.ts";
import { authorized, controlAddress, failureOf, readStore } from "../reach-relay.ts";
import { judgeAttention, judgeRisk } from "./attention.ts";
import { bytesText, type Finding, fail, ok, skip, warn } from "./finding.ts";
import { checkHandshakes } from "./handshakes.ts";
import { checkDestinations, checkServices, judgeExpiries, type Skew } from "./network.ts";
import { judgeProcesses, judgeVersions } from "./processes.ts";
import { checkRelay, type OwnStore } from "./relay.ts";
import { checkReload } from "./reload.ts";
import { checkSettings, judgeSecrets } from "./settings.ts";
import { checkCallbacks, judgeSources } from "./sources.ts";
import { checkHolder, checkIntegrity, checkSpace, checkStoreFiles, judgeBacklog, openStoreToCheck } from "./store.ts";

interface DoctorOptions {
  readonly config: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly envFile?: string | undefined;
  /** Read the whole file for damage. */
  readonly deep: boolean;
  /** Ask neither destinations nor the service. */
  readonly offline: boolean;
  /** Repeat handshakes that succeeded. */
  readonly handshake?: boolean;
}

/** Everything doctor looks at, in the order shown. Changes nothing but the times of handshakes. */
export async function runChecks({ config, env, envFile, deep, offline, handshake = false }: DoctorOptions): Promise<Finding[]> {
  const began = { wall: Date.now(), steady: performance.now() };
  const { settings, findings } = checkSettings(config, { env, envFile });
  if (settings === null) {
    const server = loadParts(config, env, envFile)?.server ?? null;
    return [...findings, ...(await checkReload(server && controlAddress(server), { config, envFile, isValid: false }))];
  }
  const { storage } = settings;
  const store = storage.driver === "sqlite" ? await checkFile(storage.path, deep) : await checkDatabase(storage);
  const [relay, destinations, services] = await Promise.all([
    examineRelay(settings, store, { config, envFile, offline, handshake }),
    offline ? { findings: [skip("destination", "--offline")], skews: [] } : checkDestinations(settings),
    offline ? [skip("service", "--offline")] : checkServices(settings),
  ]);
  const now = Date.now();
  const clock = judgeClock({
    now,
    jumpedMs: now - began.wall - (performance.now() - began.steady),
    newestEventAt: relay.newestEventAt,
    fileChangedAt: storage.driver === "sqlite" ? changedAt(storage.path) : null,
    skews: destinations.skews,
  });
  return [
    ...findings,
    ...store.findings,
    ...relay.findings,
    ...destinations.findings,
    ...judgeExpiries(settings, now),
    ...services,
    ...clock,
  ];
}

interface Judged {
  readonly findings: readonly Finding[];
  /** Unix ms. */
  readonly newestEventAt: number | null;
}

/** All about the relay, beside the slow checks of the network. */
async function examineRelay(
  settings: Settings,
  store: StoreFindings,
  {
    config,
    envFile,
    offline,
    handshake,
  }: Pick<Required<DoctorOptions>, "config" | "offline" | "handshake"> & Pick<DoctorOptions, "envFile">,
): Promise<Judged> {
  const { at, client, findings } = await checkRelay(config, settings, store);
  const reload = await checkReload(at, { config, envFile, isValid: true });
  const acting = offline || at === null ? null : authorized(at, settings.control.tokens, "replay");
  const why = offline
    ? "--offline"
    : at === null
      ? "the relay performs it, and does not answer"
      : `no token in ${config} has the scope replay for all accounts`;
  const judged = await judgeRelay(settings, client, store.isReadable, { client: acting, why, repeat: handshake });
  return { ...judged, findings: [...findings, ...reload, ...judged.findings] };
}

/** What the relay reports, else what its store does. */
async function judgeRelay(
  settings: Settings,
  relay: ControlClient | null,
  isReadable: boolean,
  acting: Parameters<typeof checkHandshakes>[1],
): Promise<Judged> {
  const nothing: Judged = { findings: judgeSecrets(settings.sources, []), newestEventAt: null };
  if (relay === null && !isReadable) return nothing;
  try {
    const client = relay ?? (await readStore(settings));
    try {
      const { at, attention, destinations } = await client.getOverview();
      const groups = await client.groupDeliveries();
      const secrets = await client.listSecrets();
      const sources = await client.listSources();
      const events = await client.listEvents({ limit: 1 });
      const [newest] = events.data;
      return {
        findings: [
          ...judgeBacklog(groups.data, settings.routes),
          ...judgeAttention(attention),
          ...(await checkHandshakes(destinations, acting)),
          ...judgeSources(sources.data, Date.parse(at)),
          ...(await checkCallbacks(settings.sources, acting)),
          ...judgeSecrets(settings.sources, secrets.data, Date.parse(at), relay !== null),
        ],
        newestEventAt: newest === undefined ? null : Date.parse(newest.receivedAt),
      };
    } finally {
      await client.close();
    }
  } catch (error) {
    const failure = failureOf(error);
    if (!(failure instanceof CommandFailed)) throw failure;
    return { ...nothing, findings: [fail("attention", failure.message, "see the log of the relay; doctor --deep checks a file")] };
  }
}

interface StoreFindings extends OwnStore {
  readonly findings: readonly Finding[];
  readonly isReadable: boolean;
}

/** The server of a store that is not there yet, which no relay judges. */
async function examineServer(storage: PostgresStorage): Promise<Finding[]> {
  const { readServer } = await import("../../app/open-postgres.ts");
  const facts = await readServer(storage);
  return [judgeServer(facts), ...databaseRisks(facts).map(judgeRisk)];
}

function judgeServer(facts: DatabaseFacts): Finding {
  const { version, isReplica, roundTripMs, bytes, connectionsLeft, standbys, seesSessions } = facts;
  const check = "postgres";
  if (isReplica) return fail(check, "it is a read-only standby: no event can be stored", "give storage.url the address of the primary");
  const text = `version ${version}, answers in ${roundTripMs} ms, ${bytesText(bytes)} stored, ${connectionsLeft} connections left, ${standbys} standbys`;
  if (seesSessions) return ok(check, text);
  return ok(check, `${text}; its user may not see long transactions of others, as pg_read_all_stats lets it`);
}

/** Many relays share a server: one that runs may be on another machine. */
async function checkDatabase(storage: PostgresStorage): Promise<StoreFindings> {
  const unread = { storage, findings: [], isReadable: false, isHeld: false, users: null };
  try {
    const { openPostgresForReading } = await import("../../app/open-postgres.ts");
    const store = await openPostgresForReading(storage);
    try {
      const processes = await store.processes();
      const findings = [judgeServer(await store.database()), judgeProcesses(processes), ...judgeVersions(processes)];
      const users = processes.map(({ id, pid, host }) => ({ id, text: `process ${pid} on ${host}` }));
      return { ...unread, findings, isReadable: true, users };
    } finally {
      await store.close();
    }
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    // A newer version, an unfinished migration, or an empty database.
    const refused: Finding = { check: "store", level: error instanceof StoreMissing ? "ok" : "fail", message: error.message };
    const server = error instanceof StoreMissing ? await examineServer(storage) : [];
    return { ...unread, findings: [...server, refused] };
  }
}

async function checkFile(path: string, deep: boolean): Promise<StoreFindings> {
  const storage = { driver: "sqlite", path } as const;
  const files = checkStoreFiles(path, process.getuid?.());
  const unread = { storage, findings: files, isReadable: false, ...checkHolder(path, null).held };
  if (!existsSync(path)) return unread;
  const { reader, findings } = openStoreToCheck(path);
  if (reader === null) return { ...unread, findings: [...files, ...findings] };
  try {
    const { held, finding } = checkHolder(path, reader);
    const judged = [finding, checkSpace(path, reader.file.usedBytes()), checkIntegrity(reader, deep)];
    return { ...unread, ...held, findings: [...files, ...findings, ...judged], isReadable: true };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (code?.startsWith("SQLITE_") !== true) throw error;
    const finding = fail("integrity", `the store cannot be read: ${message} (${code})`, "restore a copy, or use sqlite3's .recover");
    return { ...unread, findings: [...files, ...findings, finding] };
  } finally {
    await reader.close();
  }
}

/** Signatures with a timestamp fail at a few minutes of skew; this warns earlier. */
const tolerated = 30_000;

interface ClockSigns {
  readonly now: number;
  /** How much further the wall clock went than the monotonic one while doctor ran, in ms. */
  readonly jumpedMs: number;
  /** When the newest event was received; null when there is none. */
  readonly newestEventAt: number | null;
  /** When the store's file was last changed; null when there is none. */
  readonly fileChangedAt: number | null;
  readonly skews: readonly Skew[];
}

export function judgeClock(signs: ClockSigns): Finding[] {
  const found = [...clockRisks(signs)];
  if (found.length > 0) return found;
  const { length } = signs.skews;
  return [ok("clock", length === 0 ? "steady; no destination reported its time" : `steady, and agrees with ${length} of the destinations`)];
}

function* clockRisks({ now, jumpedMs, newestEventAt, fileChangedAt, skews }: ClockSigns): Generator<Finding> {
  const todo = "set this machine's clock by NTP (timedatectl)";
  if (Math.abs(jumpedMs) > 1_000) yield warn("clock", `it was set by ${spanText(jumpedMs)} while doctor ran`, todo);
  const ahead = Math.max(newestEventAt ?? 0, fileChangedAt ?? 0) - now;
  if (ahead > tolerated)
    yield warn("clock", `what was stored last lies ${spanText(ahead)} in the future: the clock is behind, or was ahead`, todo);
  for (const { name, skewMs } of skews.filter((skew) => Math.abs(skew.skewMs) > tolerated)) {
    const way = skewMs > 0 ? "ahead of" : "behind";
    yield warn("clock", `the clock of ${name} is ${spanText(skewMs)} ${way} this machine's: signatures may be refused as stale`, todo);
  }
}

/** Unix ms of a file's last change; null when there is no such file. */
function changedAt(path: string): number | null {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? null;
}
