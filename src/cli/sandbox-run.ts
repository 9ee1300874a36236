import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { stringify } from "yaml";
import { type Happening, type Sandbox, SandboxRefused, startSandbox } from "../sandbox/start-sandbox.ts";
import { CommandFailed, type Io, stopSignal } from "./io.ts";
import { printable } from "./output.ts";
import { type SandboxOptions, usualWebhook } from "./sandbox.ts";

/** Plays the messaging service until a signal ends it. */
export async function runSandbox(options: SandboxOptions, io: Io): Promise<void> {
  const { json = false, quiet = false, service, relayConfig } = options;
  if (relayConfig !== undefined) mustBeOurs(relayConfig);
  if (!isLoopback(options.host)) {
    io.err(`warning: --host ${options.host} lets others in: /sandbox has no key, and whoever reaches it may do anything with the sandbox`);
  }
  const print = (happening: Happening): void => {
    if (json && !quiet) io.out(JSON.stringify({ at: new Date().toISOString(), ...happening }));
    else if (happening.what === "failed") io.err(happeningLine(happening, new Date()));
    else if (!quiet) io.out(happeningLine(happening, new Date()));
  };
  // Work restored from a state file continues at once; it is printed after the setup.
  let early: Happening[] | null = [];
  const running = await startSandbox({
    ...settingsOf(options, io),
    onHappening: (happening) => (early === null ? print(happening) : void early.push(happening)),
  }).catch((error: unknown) => {
    throw error instanceof SandboxRefused ? new CommandFailed(error.message) : optionFault(error);
  });
  await using _ = running;
  const stopped = stopSignal();
  const ready = readyOf(running, service);
  if (relayConfig !== undefined) writePrivately(relayConfig, `${relayYaml(ready)}\n`);
  if (json) io.out(JSON.stringify({ at: new Date().toISOString(), what: "ready", ...ready }));
  else for (const line of readyLines(ready)) io.out(line);
  early.forEach(print);
  early = null;
  await stopped;
}

/** Mode 600: the file holds the key and the secret. */
function writePrivately(path: string, text: string): void {
  try {
    writeFileSync(path, text, { mode: 0o600 });
  } catch (error) {
    throw new CommandFailed(`cannot write --relay-config: ${(error as Error).message}`);
  }
}

function settingsOf(options: SandboxOptions, io: Io) {
  const { plan, seed, state, unlimited = false, webhook: webhooks, host, service } = options;
  const key = options.key ?? io.env["SANDBOX_KEY"];
  const secret = options.secret ?? io.env["SANDBOX_SECRET"];
  const { duplicate, reorder, delay, drop, truncate, wrongSignature } = options;
  return {
    host,
    service,
    port: options.port,
    speed: options.speed,
    isUnlimited: unlimited,
    webhooks: webhooks === false ? [] : (webhooks ?? usualWebhooks(plan)).map((url) => ({ url })),
    faults: {
      events: defined({ duplicate, reorder, delay, drop, truncate, wrongSignature }),
      api: [...(options.fail ?? [])],
    },
    ...defined({ plan: plan as "escala" | undefined, seed, file: state, key, secret }),
  };
}

/** A plan without the API has no webhooks. */
function usualWebhooks(plan: string | undefined): readonly string[] {
  return plan === "trial" || plan === "growth" ? [] : [usualWebhook];
}

/** Keys whose value was not given left out. */
function defined<T extends object>(given: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d+){3}$/.test(host);
}

/** Refuses to overwrite a file that the sandbox did not write. */
function mustBeOurs(path: string): void {
  if (existsSync(path) && !readFileSync(path, "utf8").startsWith(firstLine)) {
    throw new CommandFailed(`${path} is there already and was not made by the sandbox; give --relay-config another name`);
  }
}

/** A value that the sandbox's options do not take, in one line. */
function optionFault(error: unknown): unknown {
  const { name, issues } = error as { name?: string; issues?: { path: PropertyKey[]; message: string }[] };
  if (name !== "ZodError" || issues === undefined) return error;
  return new CommandFailed(issues.map(({ path, message }) => `--${path.map(String).join(".")}: ${message}`).join("; "));
}

interface Ready {
  readonly url: string;
  readonly apiUrl: string;
  readonly key: string;
  readonly secret: string;
  readonly service: string;
  readonly plan: string;
  readonly webhooks: readonly string[];
  readonly phoneNumberId: string;
  /** Of a template without variables. */
  readonly templateId: string | null;
}

function readyOf(sandbox: Sandbox, service: string): Ready {
  const { url, apiUrl, key, secret, phoneNumberId } = sandbox;
  const template = sandbox.templates().find(({ variables, status }) => variables.length === 0 && status === "approved");
  return {
    url,
    apiUrl,
    key,
    secret,
    service,
    plan: sandbox.plan(),
    webhooks: sandbox.webhooks().map((webhook) => webhook.url),
    phoneNumberId,
    templateId: template?.id ?? null,
  };
}

/** What a person needs to know to begin. */
function readyLines(ready: Ready): string[] {
  const { url, apiUrl, key, secret, service, plan, webhooks, templateId } = ready;
  const body = templateId === null ? { text: "Hola" } : { template: { id: templateId } };
  return [
    `The messaging service, played at ${url} (plan ${plan}). Ctrl-C ends it.`,
    "",
    `  API root   ${apiUrl}`,
    `  key        ${key}`,
    `  secret     ${secret}  (signs events, in the header x-${service}-signature)`,
    ...(webhooks.length === 0 ? ["  events go  nowhere"] : webhooks.map((webhook) => `  events go  to ${webhook}`)),
    "",
    "A first message (numbers that mean something are in docs/sandbox.md):",
    "",
    `  curl ${apiUrl}/messages -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' \\`,
    `    -d '${JSON.stringify({ to: "+5491155551234", ...body })}'`,
    "",
    "A relay.yaml for it (--relay-config <file> writes it):",
    "",
    ...relayYaml(ready)
      .split("\n")
      .map((line) => `  ${line}`),
    "",
  ];
}

/** One line for something that happened. Phones are in clear: the people are made up. */
function happeningLine(happening: Happening, now: Date): string {
  return printable(`${now.toISOString().slice(11, 19)} ${textOf(happening)}`);
}

function textOf(happening: Happening): string {
  switch (happening.what) {
    case "message": {
      const { phone, origin, status, errorCode, text } = happening.message;
      const code = errorCode === undefined || status !== "failed" ? "" : ` (${errorCode})`;
      const words = status === "pending" || status === "received" ? `  ${shortened(text)}` : "";
      return `message  ${phone} ${origin}: ${status}${code}${words}`;
    }
    case "event": {
      const { event, status: word, url, delivery } = happening;
      const { status, answered, tries, reason } = delivery;
      const outcome = status === "dropped" ? "dropped" : (answered ?? "no answer");
      const again = status === "waiting" ? `, try ${tries}, again later` : status === "failed" ? ", given up" : "";
      return `event    ${event}${word === null ? "" : ` ${word}`} → ${url} ${outcome}${again}${reason === null ? "" : ` (${reason})`}`;
    }
    case "run":
      return `run      ${happening.run.id} ${happening.run.status}${happening.run.error === null ? "" : `: ${happening.run.error}`}`;
    case "refused":
      return `refused  ${happening.method} ${happening.path} ${happening.status} ${shortened(happening.error)}`;
    case "failed":
      return `failed   the sandbox itself: ${happening.error instanceof Error ? happening.error.stack : String(happening.error)}`;
  }
}

function shortened(text: string): string {
  return text.length > 100 ? `${text.slice(0, 99)}…` : text;
}

/** What a relay's settings need to know of a sandbox. */
interface ForRelay {
  readonly url: string;
  readonly key: string;
  readonly secret: string;
  readonly service: string;
  readonly plan: string;
  /** Where the sandbox posts events. */
  readonly webhooks: readonly string[];
}

const firstLine = "# Settings of a relay for the sandbox, made by wamid-relay sandbox.";

/** The settings file of a relay that has the sandbox as its messaging service, and listens where the sandbox posts. */
function relayYaml({ url, key, secret, service, plan, webhooks }: ForRelay): string {
  const { port, source } = placeOf(webhooks);
  const settings = {
    server: { host: "127.0.0.1", port },
    storage: { path: "data/sandbox-relay.db" },
    control: {
      tokens: [{ name: "ops", token: "${RELAY_TOKEN:-sandbox-relay-token}", scopes: ["read", "track", "send", "replay", "listen"] }],
    },
    // The relay knows only plans that include the API.
    accounts: { main: { baseUrl: url, apiKey: inYaml(key), plan: plan === "enterprise" ? plan : "escala" } },
    sources: { [source]: { account: "main", signature: { service, secrets: [inYaml(secret)] } } },
    routes: [{ name: "everything", match: { events: ["*"] }, to: { url: "${APP_URL:-http://127.0.0.1:3000/events}", allowPrivate: true } }],
  };
  return `${firstLine}\n${stringify(settings).trimEnd()}`;
}

/** `${` would be taken for a variable. */
function inYaml(text: string): string {
  return text.replaceAll("${", () => "$${");
}

/** The relay's port and source, where a webhook URL is one of a relay on this machine. */
function placeOf(webhooks: readonly string[]): { port: number; source: string } {
  for (const webhook of webhooks) {
    const { protocol, hostname, port, pathname } = new URL(webhook);
    const [, source] = /^\/webhooks\/([A-Za-z0-9][A-Za-z0-9._-]{0,63})$/.exec(pathname) ?? [];
    if (protocol === "http:" && /^(localhost|127\..+|\[::1\])$/.test(hostname) && source !== undefined) {
      return { port: Number(port || 80), source };
    }
  }
  return placeOf([usualWebhook]);
}
