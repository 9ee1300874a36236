import { statSync } from "node:fs";
import type { z } from "zod";
import { storePlace } from "../../app/instance.ts";
import { RelayClientError } from "../../client/connection.ts";
import { envFilePath } from "../../config/env-file.ts";
import type { Settings } from "../../config/schema.ts";
import { readinessSchema } from "../../model/probes.ts";
import { relayVersion } from "../../model/version.ts";
import {
  type ControlClient,
  failureOf,
  type Listener,
  probeListener,
  probeWithinMs,
  type Reachable,
  readReadiness,
} from "../control-client.ts";
import { CommandFailed } from "../io.ts";
import { authorized, controlAddress } from "../reach-relay.ts";
import { type Finding, fail, ok, skip, warn } from "./finding.ts";
import type { OwnStore } from "./store.ts";

export interface RelayFound {
  readonly findings: readonly Finding[];
  /** With the scope `read`. Null: the control API cannot be used, for the reason in a finding. */
  readonly client: ControlClient | null;
  /** Where the relay of these settings answers; null: it does not. */
  readonly at: Reachable | null;
}

type Answering = Extract<Listener, { kind: "relay" }>;
const check = "relay";

/** Whether the relay of these settings answers, is ready, uses their store and has this version. */
export async function findRelay(config: string, { server, control }: Settings, store: OwnStore): Promise<RelayFound> {
  const at = controlAddress(server);
  const only = (finding: Finding) => ({ findings: [finding], client: null, at: null });
  if (at === null)
    return only(
      store.isHeld ? ok(check, "runs; server.port is 0, so its address is unknown") : warn(check, "does not run", "wamid-relay serve"),
    );
  try {
    const found = await probeListener(at, probeWithinMs);
    if (found.kind === "nobody") return only(assessSilence(at.url, store));
    if (found.kind === "stranger") {
      const todo = 'change server.port, or stop the process that "ss -ltnp" names';
      return only(fail(check, `what listens at ${at.url} is not a wamid-relay`, todo));
    }
    const stranger = assessIdentity(at.url, found, store);
    // The token of these settings is not for another relay.
    if (stranger !== null) return only(stranger);
    const findings = [await checkReadiness(at, found), assessVersion(found.version, relayVersion())];
    const client = authorized(at, control.tokens, "read");
    const why =
      client === null ? `no token in ${config} has the scope read for all accounts (control.tokens)` : await refusal(client, config);
    return why === null ? { findings, client, at } : { findings: [...findings, skip("control API", why)], client: null, at };
  } catch (error) {
    if (error instanceof CommandFailed) return only(fail(check, error.message, "see whether the process hangs"));
    throw error;
  }
}

function assessSilence(url: string, { isHeld, users }: OwnStore): Finding {
  if (!isHeld) return warn(check, `does not run: nothing listens at ${url}`, "wamid-relay serve");
  const todo = "if it runs with other settings, give doctor those; else stop it and start it again";
  return fail(check, `${users?.[0]?.text ?? "a process"} holds the store, and nothing answers at ${url}`, todo);
}

export function assessIdentity(url: string, { instance, version }: Answering, { storage, users }: OwnStore): Finding | null {
  if (users === null || users.some(({ id }) => id === instance)) return null;
  const place = storePlace(storage);
  const named = users.map(({ id, text }) => `${text} (instance ${id})`);
  const used = users.length === 0 ? `no process uses ${place}` : `${place} is used by ${named.join(", ")}`;
  return fail(
    check,
    `another relay answers at ${url} (instance ${instance}, version ${version}); ${used}`,
    "give one of the two another server.port, or give doctor the settings of the other relay",
  );
}

async function checkReadiness(at: Reachable, { instance }: Answering): Promise<Finding> {
  const { url } = at;
  const { status, json } = await readReadiness(at);
  if (status === 200) return ok(check, `ready at ${url} (instance ${instance})`);
  const { reason, draining } = json;
  if (draining === true) return warn(check, `is stopping (${url})`, "wait for its end, or start it again");
  const why = typeof reason === "string" ? reason : `status ${status}`;
  return fail(check, `not ready at ${url}: ${why}`, "it answers 503 until that is repaired");
}

export function assessVersion(running: string, own: string): Finding {
  if (running === own) return ok("version", own);
  const message = `the running relay has version ${running}, and this command has ${own}`;
  return fail("version", message, "restart the relay to run the new version");
}

async function refusal(client: ControlClient, config: string): Promise<string | null> {
  try {
    await client.getInstance();
    return null;
  } catch (error) {
    if (!(error instanceof RelayClientError) || error.status === 0) throw failureOf(error);
    if (error.status === 404) return "a process with the role work has no control API; give doctor the port of one that receives";
    return `the relay refuses the tokens of ${config} (${error.status}: ${error.message}); if you changed them, reload the relay`;
  }
}

const reloadSchema = readinessSchema.shape.settings;

interface SettingsFiles {
  readonly config: string;
  readonly envFile?: string | undefined;
  /** False: the settings file has faults now, so a restart would fail. */
  readonly isValid: boolean;
}

/** What the last reload of the relay did. No finding where no relay of this version answers, which other checks report. */
export async function checkReload(at: Reachable | null, { config, envFile, isValid }: SettingsFiles): Promise<Finding[]> {
  if (at === null) return [];
  try {
    const { json } = await readReadiness(at);
    const { data } = reloadSchema.safeParse(json["settings"]);
    if (data === undefined) return [];
    const isNewer = (path: string) => (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0) > Date.parse(data.loadedAt);
    return [assessReload(data, { isValid }, [config, envFilePath(config, envFile)].find(isNewer) ?? null)];
  } catch (error) {
    if (error instanceof CommandFailed) return [];
    throw error;
  }
}

/** `changed`: a file that was changed after the relay read it; null: none. */
export function assessReload(
  { loadedAt, refusedAt, faults, needRestart }: z.infer<typeof reloadSchema>,
  { isValid }: Pick<SettingsFiles, "isValid">,
  changed: string | null,
): Finding {
  if (refusedAt !== null) {
    const message = `the relay refused the reload at ${refusedAt}: ${faults} ${faults === 1 ? "fault" : "faults"}; the settings of ${loadedAt} stay in effect`;
    return isValid
      ? warn("reload", message, "the settings file is valid now: wamid-relay reload")
      : fail("reload", message, "correct the settings file, then wamid-relay reload; a restart would fail");
  }
  if (changed !== null) return warn("reload", `${changed} was changed after the relay read it at ${loadedAt}`, "wamid-relay reload");
  if (needRestart.length > 0) return warn("reload", `not in effect before a restart: ${needRestart.join(", ")}`, "restart the relay");
  return ok("reload", `the settings in effect were read at ${loadedAt}`);
}
