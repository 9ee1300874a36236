import { storePlace } from "../../app/instance.ts";
import { RelayClientError } from "../../client/connection.ts";
import type { Settings } from "../../config/schema.ts";
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

/** The processes that use a store, as the store names them. */
export interface Held {
  /** A process has the file open for writing. Always false for a server. */
  readonly isHeld: boolean;
  /** Null: unknown. */
  readonly users: readonly { readonly id: string; readonly text: string }[] | null;
}

/** The store of the settings file, as doctor found it. */
export interface OwnStore extends Held {
  readonly storage: Settings["storage"];
}

interface RelayFound {
  readonly findings: readonly Finding[];
  /** Null: the control API cannot be used, for the reason in a finding. */
  readonly client: ControlClient | null;
  /** Where the relay of these settings answers; null: it does not. */
  readonly at: Reachable | null;
}

type Answering = Extract<Listener, { kind: "relay" }>;

/** Whether the relay of these settings answers, is ready, uses their store and has this version. */
export async function checkRelay(config: string, settings: Settings, store: OwnStore): Promise<RelayFound> {
  const at = controlAddress(settings.server);
  const only = (finding: Finding): RelayFound => ({ findings: [finding], client: null, at: null });
  if (at === null) {
    return only(
      store.isHeld ? ok("relay", "runs; server.port is 0, so its address is unknown") : warn("relay", "does not run", "wamid-relay serve"),
    );
  }
  const { url } = at;
  try {
    const found = await probeListener(at, probeWithinMs);
    if (found.kind === "nobody") return only(judgeSilence(url, store));
    if (found.kind === "stranger") {
      const todo = 'change server.port, or stop the process that "ss -ltnp" names';
      return only(fail("relay", `what listens at ${url} is not a wamid-relay`, todo));
    }
    const stranger = judgeIdentity(url, found, store);
    // The token of these settings is not for another relay.
    if (stranger !== null) return only(stranger);
    const findings = [await checkReadiness(at, found), judgeVersion(found.version, relayVersion())];
    const client = authorized(at, settings.control.tokens, "read");
    const why =
      client === null ? `no token in ${config} has the scope read for all accounts (control.tokens)` : await refusal(client, config);
    return why === null ? { findings, client, at } : { findings: [...findings, skip("control API", why)], client: null, at };
  } catch (error) {
    if (error instanceof CommandFailed) return only(fail("relay", error.message, "see whether the process hangs"));
    throw error;
  }
}

function judgeSilence(url: string, { isHeld, users }: Held): Finding {
  if (!isHeld) return warn("relay", `does not run: nothing listens at ${url}`, "wamid-relay serve");
  const user = users?.[0]?.text ?? "a process";
  const todo = "if it runs with other settings, give doctor those; else stop it and start it again";
  return fail("relay", `${user} holds the store, and nothing answers at ${url}`, todo);
}

/** A finding when the relay that answers is not one of those that use the store of the settings. */
export function judgeIdentity(url: string, { instance, version }: Answering, { storage, users }: OwnStore): Finding | null {
  if (users === null || users.some(({ id }) => id === instance)) return null;
  const place = storePlace(storage);
  const named = users.map(({ id, text }) => `${text} (instance ${id})`);
  const used = users.length === 0 ? `no process uses ${place}` : `${place} is used by ${named.join(", ")}`;
  return fail(
    "relay",
    `another relay answers at ${url} (instance ${instance}, version ${version}); ${used}`,
    "give one of the two another server.port, or give doctor the settings of the other relay",
  );
}

async function checkReadiness(at: Reachable, { instance }: Answering): Promise<Finding> {
  const { url } = at;
  const check = "relay";
  const { status, json } = await readReadiness(at);
  if (status === 200) return ok(check, `ready at ${url} (instance ${instance})`);
  const { reason, draining } = json;
  if (draining === true) return warn(check, `is stopping (${url})`, "wait for its end, or start it again");
  const why = typeof reason === "string" ? reason : `status ${status}`;
  return fail(check, `not ready at ${url}: ${why}`, "it answers 503 until that is repaired");
}

export function judgeVersion(running: string, own: string): Finding {
  if (running === own) return ok("version", own);
  return fail(
    "version",
    `the running relay has version ${running}, and this command has ${own}`,
    "restart the relay to run the new version",
  );
}

/** Why the relay does not answer `/v1` with these tokens; null: it does. */
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
