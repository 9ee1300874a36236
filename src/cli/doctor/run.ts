import { existsSync, statSync } from "node:fs";
import type { ReadingEngine } from "../../app/engine.ts";
import { fileIdentity, storePlace } from "../../app/instance.ts";
import { breakersInFile, openStoreForReading } from "../../app/open-store.ts";
import { loadParts } from "../../config/load.ts";
import type { Settings } from "../../config/schema.ts";
import type { StopView } from "../../service/accounts.ts";
import { StoreMissing, StoreRefused } from "../../store/port.ts";
import type { PostgresStorage, RedisSettings, StorageSettings } from "../../store/settings.ts";
import { isLocked } from "../../store/sqlite/lock.ts";
import type { StoredSecretUse } from "../../store/views.ts";
import { controlAddress } from "../reach-relay.ts";
import { attentionInStore, judgeAttention, type StoredFacts } from "./attention.ts";
import { type Finding, fail, ok, skip, spanText, warn } from "./finding.ts";
import { checkDestinations, checkServices, judgeExpiries, type Skew } from "./network.ts";
import { judgeProcesses, judgeVersions } from "./processes.ts";
import { checkRelay, knownSecrets, type OwnStore } from "./relay.ts";
import { checkReload } from "./reload.ts";
import { checkSettings, judgeSecrets } from "./settings.ts";
import { checkHolder, checkIntegrity, checkSpace, checkStoreFiles, judgeBacklog, openStoreToCheck } from "./store.ts";

interface DoctorOptions {
  readonly config: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly envFile?: string | undefined;
  /** Read the whole file for damage. */
  readonly deep: boolean;
  /** Ask neither destinations nor the service. */
  readonly offline: boolean;
}

/** Everything doctor looks at, in the order shown. Changes nothing. */
export async function runChecks({ config, env, envFile, deep, offline }: DoctorOptions): Promise<Finding[]> {
  const began = { wall: Date.now(), steady: performance.now() };
  const { settings, findings } = checkSettings(config, { env, envFile });
  if (settings === null) {
    const server = loadParts(config, env, envFile)?.server ?? null;
    return [...findings, ...(await checkReload(server && controlAddress(server), { config, envFile, isValid: false }))];
  }
  const { storage } = settings;
  const store = storage.driver === "sqlite" ? await checkStore(settings, storage.path, deep) : await checkShared(storage, settings);
  const { own } = store;
  const [relay, destinations, services] = await Promise.all([
    checkRelay(config, settings, own),
    offline ? { findings: [skip("destination", "--offline")], skews: [] } : checkDestinations(settings),
    offline ? [skip("service", "--offline")] : checkServices(settings),
  ]);
  // A relay that runs knows more than its store.
  const stops = store.stops ?? relay.stops;
  const attention = relay.attention ?? (store.facts && attentionInStore(store.facts, stops, settings.routes, store.now));
  const reload = await checkReload(controlAddress(settings.server), { config, envFile, isValid: true });
  const now = Date.now();
  const clock = judgeClock({
    now,
    jumpedMs: now - began.wall - (performance.now() - began.steady),
    newestEventAt: store.newestEventAt,
    fileChangedAt: storage.driver === "sqlite" ? changedAt(storage.path) : null,
    skews: destinations.skews,
  });
  return [
    ...findings,
    ...store.files,
    ...relay.findings,
    ...reload,
    ...(store.facts === null ? [] : judgeBacklog(store.facts.backlog, settings.routes)),
    ...(attention === null ? [] : judgeAttention(attention)),
    ...judgeSecrets(settings.sources, store.secretUses, store.now, knownSecrets(settings.sources, relay.digests, own.dataId)),
    ...destinations.findings,
    ...judgeExpiries(settings, now),
    ...services,
    ...clock,
  ];
}

interface StoreFindings {
  readonly files: readonly Finding[];
  /** Null: it cannot be read. */
  readonly facts: StoredFacts | null;
  readonly own: OwnStore;
  readonly secretUses: readonly StoredSecretUse[];
  /** By the clock of the store, in unix ms. */
  readonly now: number;
  readonly newestEventAt: number | null;
  /** Quota stops of accounts, where processes share them; absent: `/readyz` shows them. */
  readonly stops?: readonly StopView[];
}

/** Many relays share a server: one that runs may be on another machine. */
async function checkShared(storage: RedisSettings | PostgresStorage, { routes, accounts }: Settings): Promise<StoreFindings> {
  const files = await checkServer(storage);
  const nothing: OwnStore = { place: storePlace(storage), file: null, dataId: null, isHeld: false, users: null };
  const found = { files, facts: null, own: nothing, secretUses: [], now: Date.now(), newestEventAt: null };
  if (files.some(({ check, level }) => check === storage.driver && level === "fail")) return found;
  const { store, refused } = await openShared(storage);
  if (store === null) return { ...found, files: [...files, refused] };
  try {
    const now = store.now();
    const { read } = store;
    const [backlog, breakers, quarantine, unplanned, secretUses] = await Promise.all([
      read.backlog(),
      store.breakersOf(routes),
      read.quarantine(),
      read.unplanned(),
      read.secretUses(),
    ]);
    const stops = await Promise.all(
      Object.entries(accounts).map(async ([name, { baseUrl, plan }]) =>
        baseUrl === undefined ? [] : ((await store.quotaStops?.(name, baseUrl, plan)) ?? []),
      ),
    );
    const processes = (await store.processes?.()) ?? null;
    const users = processes?.map(({ id, pid, host }) => ({ id, text: `process ${pid} on ${host}` })) ?? null;
    const own = { ...nothing, dataId: await store.read.dataId(), users };
    const judged = storage.driver === "postgres" && processes !== null ? [judgeProcesses(processes), ...judgeVersions(processes)] : [];
    const facts = { backlog, breakers, quarantine, unplanned };
    return { ...found, files: [...files, ...judged], facts, own, secretUses, now, stops: stops.flat() };
  } finally {
    await store.close();
  }
}

async function checkServer(storage: RedisSettings | PostgresStorage): Promise<readonly Finding[]> {
  if (storage.driver === "postgres") return (await import("./postgres.ts")).checkPostgres(storage);
  return (await import("./redis.ts")).checkRedis(storage);
}

/** A finding when the store cannot be opened: a newer version, or an unfinished migration. */
async function openShared(storage: StorageSettings): Promise<{ store: ReadingEngine; refused: null } | { store: null; refused: Finding }> {
  try {
    return { store: await openStoreForReading(storage), refused: null };
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    return { store: null, refused: { check: "store", level: error instanceof StoreMissing ? "ok" : "fail", message: error.message } };
  }
}

async function checkStore({ storage, retention, routes }: Settings, path: string, deep: boolean): Promise<StoreFindings> {
  const files = checkStoreFiles(path, process.getuid?.());
  const held = isLocked(path);
  const nothing: OwnStore = {
    place: storePlace(storage),
    file: fileIdentity(path),
    dataId: null,
    isHeld: held === true,
    users: held === false ? [] : null,
  };
  const found = { files, facts: null, own: nothing, secretUses: [], now: Date.now(), newestEventAt: null };
  if (!existsSync(path)) return found;
  const { reader, findings } = openStoreToCheck(path);
  if (reader === null) return { ...found, files: [...files, ...findings] };
  try {
    const { now } = found;
    const { read } = reader;
    const holder = checkHolder(path, reader);
    return {
      files: [...files, ...findings, holder.finding, await checkSpace(path, reader, now, retention.events), checkIntegrity(reader, deep)],
      facts: {
        backlog: await read.backlog(),
        breakers: breakersInFile(reader, routes, now),
        quarantine: await read.quarantine(),
        unplanned: await read.unplanned(),
      },
      own: { ...nothing, dataId: await read.dataId(), isHeld: holder.isHeld, users: holder.users },
      secretUses: await read.secretUses(),
      now,
      newestEventAt: await read.events.latestReceived(0, Number.MAX_SAFE_INTEGER),
    };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (code?.startsWith("SQLITE_") !== true) throw error;
    const finding = fail("integrity", `the store cannot be read: ${message} (${code})`, "restore a copy, or use sqlite3's .recover");
    return { ...found, files: [...files, ...findings, finding] };
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
