import { z } from "zod";
import { differingPaths, digestDataId, digestSecret, digestSettings, type SettingsDigests } from "../../config/digest.ts";
import { needsRestart, type Settings } from "../../config/schema.ts";
import type { RelayInstance } from "../../model/answers.ts";
import { overviewSchema } from "../../model/overview.ts";
import { relayVersion } from "../../model/version.ts";
import type { StopView } from "../../service/accounts.ts";
import { stopReasons } from "../../service/limits/account.ts";
import { CommandFailed } from "../io.ts";
import {
  type ControlClient,
  connectRelay,
  controlAddress,
  type Listener,
  probeListener,
  type Reachable,
  readAnswer,
} from "../reach-relay.ts";
import type { Entry } from "./attention.ts";
import { type Finding, fail, ok, skip, warn } from "./finding.ts";

/** The stops of accounts' calls, as `/readyz` shows them. */
const stopsSchema = z.array(
  z.object({ account: z.string(), reason: z.enum(stopReasons), resource: z.string().nullable(), until: z.string() }),
);

/** The store of the settings file, as doctor found it. */
export interface OwnStore {
  /** For people. */
  readonly place: string;
  /** Device and inode of the file; null for Redis and for a missing file. */
  readonly file: string | null;
  /** Key of the settings' digests; null: not readable. */
  readonly dataId: string | null;
  /** A process has the file open for writing. Always false for Redis. */
  readonly isHeld: boolean;
  /** The processes that use it now; null: unknown. */
  readonly users: readonly StoreUser[] | null;
}

export interface StoreUser {
  /** Its instance id. */
  readonly id: string;
  /** Such as `process 12 on host`. */
  readonly text: string;
}

interface RelayFound {
  readonly findings: readonly Finding[];
  readonly stops: readonly StopView[];
  /** What needs action, as the relay judges it; null: not known. */
  readonly attention: readonly Entry[] | null;
  /** What the relay has in effect; null: not known. */
  readonly digests: SettingsDigests | null;
}

type Answering = Extract<Listener, { kind: "relay" }>;

/** Whether the relay of these settings answers, is ready, and runs this version with this store and these settings. */
export async function checkRelay(config: string, settings: Settings, store: OwnStore): Promise<RelayFound> {
  const at = controlAddress(settings.server);
  const only = (finding: Finding, why: string): RelayFound => ({
    findings: [finding, skip("running settings", why)],
    stops: [],
    attention: null,
    digests: null,
  });
  if (at === null) {
    const finding = store.isHeld ? ok("relay", "runs; its address is unknown") : warn("relay", "does not run", "wamid-relay serve");
    return only(finding, "server.port is 0, so the relay's address is unknown");
  }
  const { url } = at;
  try {
    const found = await probeListener(at);
    if (found.kind === "nobody") return only(judgeSilence(url, store), `nothing answers at ${url}`);
    if (found.kind === "stranger") {
      const todo = 'change server.port, or stop the process that "ss -ltnp" names';
      return only(fail("relay", `what listens at ${url} is not a wamid-relay`, todo), `no relay answers at ${url}`);
    }
    const stranger = judgeIdentity(url, found, store);
    // The token of these settings is not for another relay.
    if (stranger !== null) return only(stranger, "another relay answers");
    const { finding, stops } = await checkReadiness(at, found);
    const { findings, ...known } = await compare(at, { config, settings, store });
    return { findings: [finding, judgeVersion(found.version, relayVersion()), ...findings], stops, ...known };
  } catch (error) {
    if (error instanceof CommandFailed) return only(fail("relay", error.message, "see whether the process hangs"), error.message);
    throw error;
  }
}

function judgeSilence(url: string, { isHeld, users }: OwnStore): Finding {
  if (!isHeld) return warn("relay", `does not run: nothing listens at ${url}`, "wamid-relay serve");
  const user = users?.[0]?.text ?? "a process";
  const todo = "if it runs with other settings, give doctor those; else stop it and start it again";
  return fail("relay", `${user} holds the store, and nothing answers at ${url}`, todo);
}

/** A finding when the relay that answers is not one of those that use the store of the settings. */
export function judgeIdentity(url: string, { instance, version }: Answering, { place, users }: OwnStore): Finding | null {
  if (users === null || users.some(({ id }) => id === instance)) return null;
  const used = users.length === 0 ? `no process uses ${place}` : `${place} is used by ${users.map(userText).join(", ")}`;
  return fail(
    "relay",
    `another relay answers at ${url} (instance ${instance}, version ${version}); ${used}`,
    "give one of the two another server.port, or give doctor the settings of the other relay",
  );
}

const userText = ({ id, text }: StoreUser): string => `${text} (instance ${id})`;

async function checkReadiness(at: Reachable, { instance }: Answering): Promise<{ finding: Finding; stops: readonly StopView[] }> {
  const { url } = at;
  const check = "relay";
  const { status, json } = await connectRelay(at, null).request("GET", "/readyz");
  const seen = stopsSchema.safeParse((json as { stops?: unknown }).stops);
  const stops = seen.success ? seen.data : [];
  if (status === 200) return { finding: ok(check, `ready at ${url} (instance ${instance})`), stops };
  const { reason, draining } = json as { reason?: unknown; draining?: unknown };
  if (draining === true) return { finding: warn(check, `is stopping (${url})`, "wait for its end, or start it again"), stops };
  const why = typeof reason === "string" ? reason : `status ${status}`;
  return { finding: fail(check, `not ready at ${url}: ${why}`, "it answers 503 until that is repaired"), stops };
}

export function judgeVersion(running: string, own: string): Finding {
  if (running === own) return ok("version", own);
  return fail(
    "version",
    `the running relay has version ${running}, and this command has ${own}`,
    "restart the relay to run the new version",
  );
}

interface Given {
  readonly config: string;
  readonly settings: Settings;
  readonly store: OwnStore;
}

async function compare(at: Reachable, given: Given): Promise<Omit<RelayFound, "stops">> {
  const unchecked = (why: string): Omit<RelayFound, "stops"> => ({
    findings: [skip("running settings", why)],
    attention: null,
    digests: null,
  });
  const { config, settings, store } = given;
  const token = settings.control.tokens.find(({ scopes }) => scopes.includes("read"));
  if (token === undefined) return unchecked(`no token in ${config} has the scope read (control.tokens)`);
  const client = connectRelay(at, token.token.reveal());
  const { status, json } = await client.request("GET", "/v1/instance");
  if (status === 404) return unchecked("a process with the role work has no control API; give doctor the port of one that receives");
  if (status !== 200) {
    const { error } = json as { error?: unknown };
    return unchecked(
      `the relay refuses the token "${token.name}" of ${config} (${status}: ${String(error)}); if you changed it, reload the relay`,
    );
  }
  const running = readAnswer("instance", json);
  const stores = judgeStores(at.url, running, store);
  const other = unchecked("the running relay uses another store");
  // Under another store's key, no digest is equal.
  if (stores.level === "fail") return { ...other, findings: [stores, ...other.findings] };
  const attention = await readAttention(client);
  if (running.settings === null || store.dataId === null) {
    const { findings } = unchecked("the store, whose id keys their digests, is unavailable");
    return { findings: [stores, ...findings], attention, digests: null };
  }
  const digests = Object.fromEntries(running.settings.map(({ path, digest }) => [path, digest]));
  const differing = differingPaths(digestSettings(settings, store.dataId), digests);
  return { findings: [stores, judgeSettings(config, differing, running.pid)], attention, digests };
}

/** Null: the relay has another version, which another check reports. */
async function readAttention(client: Pick<ControlClient, "request">): Promise<readonly Entry[] | null> {
  const { json } = await client.request("GET", "/v1/overview");
  return overviewSchema.safeParse(json).data?.attention ?? null;
}

/** Whether the relay uses the store of the settings. */
export function judgeStores(url: string, { store: running }: Pick<RelayInstance, "store">, own: OwnStore): Finding {
  const check = "running store";
  const isSame =
    (running.file === null || own.file === null || running.file === own.file) &&
    (running.data === null || own.dataId === null || running.data === digestDataId(own.dataId));
  if (!isSame) {
    return fail(
      check,
      `the relay at ${url} uses ${running.place}, and the settings name ${own.place}`,
      "restart the relay with these settings, or give doctor the settings of that relay",
    );
  }
  if (running.data === null || own.dataId === null) return skip(check, "the store is unavailable");
  return ok(check, own.place);
}

const mostNamed = 8;

/** `differing`: paths of the settings that the running relay has otherwise than the file. */
export function judgeSettings(config: string, differing: readonly string[], pid: number): Finding {
  const check = "running settings";
  if (differing.length === 0) return ok(check, `as in ${config}`);
  const named = differing.slice(0, mostNamed).join(", ");
  const more = differing.length > mostNamed ? ` and ${differing.length - mostNamed} more` : "";
  const reload = `reload the relay: wamid-relay reload, or kill -HUP ${pid}`;
  const some = differing.filter(needsRestart).length;
  const todo = some === 0 ? reload : some === differing.length ? "restart the relay" : `restart the relay; a reload applies only some`;
  return fail(check, `the running relay has other values than ${config} for ${named}${more}`, todo);
}

/** Whether the running relay knows each secret of the sources; null: not known. By source, in the order of the file. */
export function knownSecrets(
  sources: Settings["sources"],
  digests: SettingsDigests | null,
  dataId: string | null,
): ReadonlyMap<string, readonly boolean[]> | null {
  if (digests === null || dataId === null) return null;
  return new Map(
    Object.entries(sources).map(([source, { signature }]) => {
      const prefix = `sources.${source}.signature.secrets[`;
      const known = new Set(Object.entries(digests).flatMap(([path, digest]) => (path.startsWith(prefix) ? [digest] : [])));
      return [source, signature.secrets.map((secret) => known.has(digestSecret(secret, dataId)))];
    }),
  );
}
