import { statSync } from "node:fs";
import type { z } from "zod";
import { storePlace } from "../../app/engine.ts";
import { envFilePath } from "../../config/env-file.ts";
import type { Settings } from "../../config/schema.ts";
import { readinessSchema } from "../../model/endpoints/operate.ts";
import { relayVersion } from "../../model/version.ts";
import { aCommand } from "../../store/sqlite/file.ts";
import {
  type Listener,
  probeListener,
  probeWithinMs,
  type Reachable,
  readReadiness,
} from "../control-client.ts";
import { CommandFailed } from "../io.ts";
import { controlAddress } from "../reach-relay.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";
import type { OwnStore } from "./store.ts";

interface RelayFound {
  readonly findings: readonly Finding[];
  /**
   * Where the relay of these settings answers; null: it does not. The token of these settings is
   * not for another one.
   */
  readonly at: Reachable | null;
}

type Answering = Extract<Listener, { kind: "relay" }>;
type Readiness = Awaited<ReturnType<typeof readReadiness>>;
const check = "relay";

export async function findRelay(
  files: SettingsFiles,
  { server }: Pick<Settings, "server">,
  store: OwnStore,
): Promise<RelayFound> {
  const at = controlAddress(server);
  const only = (finding: Finding) => ({ findings: [finding], at: null });
  if (at === null)
    return only(
      store.isHeld
        ? ok(check, "runs; server.port is 0, so its address is unknown")
        : warn(check, "does not run", "wamid-relay serve"),
    );
  try {
    const found = await probeListener(at, probeWithinMs);
    if (found.kind === "nobody") return only(assessSilence(at.url, store));
    if (found.kind === "stranger") {
      const todo = 'change server.port, or stop the process that "ss -ltnp" names';
      return only(fail(check, `what listens at ${at.url} is not a wamid-relay`, todo));
    }
    const other = assessIdentity(at.url, found, store);
    const readiness = await readReadiness(at);
    // A process whose store refuses writes cannot note in it that it is there.
    if (other !== null)
      return only(
        readiness.json["store"] === "failing" ? assessReadiness(at.url, found, readiness) : other,
      );
    const version = assessVersion(found.version, relayVersion());
    return {
      findings: [assessReadiness(at.url, found, readiness), version, ...reloadOf(readiness, files)],
      at,
    };
  } catch (error) {
    if (error instanceof CommandFailed)
      return only(fail(check, error.message, "see whether the process hangs"));
    throw error;
  }
}

function assessSilence(url: string, { isHeld, users }: OwnStore): Finding {
  const silence = `nothing listens at ${url}`;
  if (!isHeld && users !== null && users.length > 0) {
    const processes = users.map(({ text }) => text).join(", ");
    return warn(
      check,
      `${silence}; the store is used by ${processes}`,
      "run doctor on the host of a receiver",
    );
  }
  const holder = users?.[0]?.text ?? "a process";
  // A relay that starts waits for the end of a command.
  if (!isHeld || holder.startsWith(aCommand))
    return warn(check, `does not run: ${silence}`, "wamid-relay serve");
  const todo = "if it runs with other settings, give doctor those; else stop it and start it again";
  return fail(check, `${holder} holds the store, and nothing answers at ${url}`, todo);
}

export function assessIdentity(
  url: string,
  { instance, version }: Answering,
  { storage, users }: OwnStore,
): Finding | null {
  if (users === null || users.some(({ id }) => id === instance)) return null;
  const place = storePlace(storage);
  const named = users.map(({ id, text }) => `${text} (instance ${id})`);
  const used =
    users.length === 0 ? `no process uses ${place}` : `${place} is used by ${named.join(", ")}`;
  return fail(
    check,
    `another relay answers at ${url} (instance ${instance}, version ${version}); ${used}`,
    "give one of the two another server.port, or give doctor the settings of the other relay",
  );
}

function assessReadiness(
  url: string,
  { instance }: Answering,
  { status, json }: Readiness,
): Finding {
  if (status === 200) return ok(check, `ready at ${url} (instance ${instance})`);
  const { reason, draining } = json;
  if (draining === true)
    return warn(check, `is stopping (${url})`, "wait for its end, or start it again");
  const why = typeof reason === "string" ? reason : `status ${status}`;
  return fail(check, `not ready at ${url}: ${why}`, "it answers 503 until that is repaired");
}

export function assessVersion(running: string, own: string): Finding {
  if (running === own) return ok("version", own);
  const message = `the running relay has version ${running}, and this command has ${own}`;
  return fail("version", message, "restart the relay to run the new version");
}

interface SettingsFiles {
  readonly config: string;
  readonly envFile?: string | undefined;
  /** False: the settings file has faults now, so a restart would fail. */
  readonly isValid: boolean;
}

/** What the last reload of the relay at `at` did. No finding where none answers. */
export async function checkReload(at: Reachable | null, files: SettingsFiles): Promise<Finding[]> {
  if (at === null) return [];
  try {
    return reloadOf(await readReadiness(at), files);
  } catch (error) {
    if (error instanceof CommandFailed) return [];
    throw error;
  }
}

const reloadSchema = readinessSchema.shape.settings;

/** None of a relay of another version. */
function reloadOf({ json }: Readiness, { config, envFile, isValid }: SettingsFiles): Finding[] {
  const { data } = reloadSchema.safeParse(json["settings"]);
  if (data === undefined) return [];
  const isNewer = (path: string) =>
    (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) > Date.parse(data.loadedAt);
  return [assessReload(data, isValid, [config, envFilePath(config, envFile)].find(isNewer))];
}

/** `changed`: a file that was changed after the relay read it. */
export function assessReload(
  { loadedAt, refusedAt, faults, needRestart }: z.infer<typeof reloadSchema>,
  isValid: boolean,
  changed?: string,
): Finding {
  const correct = "correct the settings file, then wamid-relay reload; a restart would fail";
  if (refusedAt !== null) {
    const message = `the relay refused the reload at ${refusedAt}: ${faults} ${faults === 1 ? "fault" : "faults"}; the settings of ${loadedAt} stay in effect`;
    return isValid
      ? warn("reload", message, "the settings file is valid now: wamid-relay reload")
      : fail("reload", message, correct);
  }
  if (changed !== undefined) {
    const message = `${changed} was changed after the relay read it at ${loadedAt}`;
    return warn("reload", message, isValid ? "wamid-relay reload" : correct);
  }
  if (needRestart.length > 0)
    return warn(
      "reload",
      `not in effect before a restart: ${needRestart.join(", ")}`,
      "restart the relay",
    );
  return ok("reload", `the settings in effect were read at ${loadedAt}`);
}
