import { randomBytes } from "node:crypto";
import type { Command } from "commander";
import type { ReadingSettings } from "../app/reading.ts";
import { RelayClientError } from "../client/connection.ts";
import type { Scope, Settings, TokenSettings } from "../config/schema.ts";
import type { StorageSettings } from "../store/settings.ts";
import { isMissing } from "../store/sqlite/faults.ts";
import type { FileKey } from "../store/sqlite/file.ts";
import {
  type ControlClient,
  connectRelay,
  failureFor,
  injected,
  probeListener,
  probeWithinMs,
  type Reachable,
} from "./control-client.ts";
import { CommandFailed, type Io } from "./io.ts";
import { type RelayOptions, webUrl } from "./options.ts";

/**
 * What a command works on. Where no relay runs, `store` opens the store, `service` also calls the
 * service, and `process` fails.
 */
type Subject = "store" | "service" | "process";

/**
 * Runs `use` on one relay: the one at `--relay`, else the one that runs with these settings, else
 * the store in this process. The store is only read for the scope `read`.
 */
export async function withRelay<T>(
  command: Command,
  options: RelayOptions,
  io: Io,
  scope: Scope,
  use: (client: ControlClient) => Promise<T>,
  subject: Subject = "store",
): Promise<T> {
  const remote = remoteAddress(command, options, io);
  try {
    const client =
      remote === null
        ? await ownRelay(options, io, scope, subject)
        : connectRelay(remote, [remote.token], options.showPii);
    try {
      return await use(client);
    } finally {
      await client.close();
    }
  } catch (error) {
    throw failureFor(command, error);
  }
}

async function ownRelay(
  options: RelayOptions,
  io: Io,
  scope: Scope,
  subject: Subject,
): Promise<ControlClient> {
  const [{ loadParts }, { readPart }] = await Promise.all([
    import("../config/load.ts"),
    import("./settings-option.ts"),
  ]);
  const parts = loadParts(options.config, io.env, options.envFile);
  const storage = subject === "process" ? null : (parts?.storage ?? null);
  // One of the two is enough.
  const server = parts?.server ?? (storage === null ? readPart("server", options, io) : null);
  const found = await findRelay(server, storage);
  if (typeof found !== "string") {
    const { tokens = [], unusableTokens = [] } = parts ?? {};
    const client = authorized(found, tokens, scope, options.showPii);
    if (client !== null && (await servesStore(client, storage))) return client;
    // A file can be read beside its relay, and any number of processes write into a database.
    if (storage === null || (storage.driver === "sqlite" && scope !== "read"))
      throw new CommandFailed(noToken(options.config, scope, found.url, unusableTokens));
  } else if (subject === "process") {
    // Where another process listens or hangs, a second relay could not start.
    const start = found.startsWith("nothing ")
      ? 'start the relay with "wamid-relay serve", or '
      : "";
    throw new CommandFailed(`${found}: ${start}give the relay's address with --relay`);
  }
  const own = storage ?? readPart("storage", options, io);
  if (own.driver === "sqlite") await checkFile(own.path, typeof found === "string" ? found : null);
  if (scope === "read")
    return readStore(await settingsForLooking(own, options, io), options.showPii);
  return writeStore(options, io, scope, subject === "service");
}

/**
 * The relay at the address of the settings, or why no relay of this store answers there. Sends no
 * token.
 */
export async function findRelay(
  server: Settings["server"] | null,
  storage: StorageSettings | null,
  timeoutMs = probeWithinMs,
): Promise<Reachable | string> {
  if (server === null) return "server has a fault in the settings";
  const at = controlAddress(server);
  if (at === null) return "server.port is 0, so the relay's address is not known";
  try {
    const found = await probeListener(at, timeoutMs);
    if (found.kind === "nobody") return `nothing answers at ${at.url}`;
    if (found.kind === "stranger") return `what listens at ${at.url} is no wamid-relay`;
    if (storage?.driver !== "sqlite") return at;
    // Without the file no relay uses it.
    const holder = isMissing(storage.path) ? "" : await readFileKey(storage.path, "instance");
    return holder === null || holder === found.instance
      ? at
      : `the relay at ${at.url} uses another store`;
  } catch (error) {
    if (error instanceof CommandFailed) return error.message;
    throw error;
  }
}

/** With a token that is limited to accounts, a command would show a part as if it were all. */
export function tokensWith(
  scope: Scope,
  tokens: readonly TokenSettings[],
): readonly TokenSettings[] {
  return tokens.filter(({ scopes, accounts }) => scopes.includes(scope) && accounts === undefined);
}

/** A client with the tokens that have the scope, those with `pii` first. Null: there is none. */
export function authorized(
  at: Reachable,
  tokens: readonly TokenSettings[],
  scope: Scope,
  reveal?: boolean,
): ControlClient | null {
  const usable = tokensWith(scope, tokens).toSorted(
    (a, b) => Number(b.scopes.includes("pii")) - Number(a.scopes.includes("pii")),
  );
  const texts = usable.map(({ token }) => token.reveal());
  return texts.length === 0 ? null : connectRelay(at, texts, reveal);
}

/**
 * False: the process has no control API, or uses another database. Of a file, the process that
 * answers was compared already.
 */
async function servesStore(
  client: ControlClient,
  storage: StorageSettings | null,
): Promise<boolean> {
  if (storage === null || storage.driver === "sqlite") return true;
  try {
    const { store } = await client.getInstance();
    const { storePlace } = await import("../app/engine.ts");
    return store.place === storePlace(storage);
  } catch (error) {
    if (error instanceof RelayClientError && error.status > 0) return false;
    throw error;
  }
}

/** Why no token of the settings can be used. `unusable`: why this command cannot use others. */
export function noToken(
  config: string,
  scope: Scope,
  url: string,
  unusable: readonly string[],
): string {
  const why =
    unusable.length === 0
      ? `no token in ${config} has the scope ${scope} for all accounts (control.tokens); add one`
      : `this command cannot read the token of the relay: ${unusable.join("; ")}. Correct it, or run the command with the relay's user and variables`;
  return `${why}, or use --relay ${url} with --token-env`;
}

/** The relay at `--relay` and its token; null: the option was not given. */
export function remoteAddress(
  command: Command,
  { relay, tokenEnv }: RelayOptions,
  io: Io,
): { readonly url: string; readonly token: string } | null {
  if (relay === undefined) return null;
  const url = webUrl(relay);
  // The message does not repeat a password.
  if (url === null || url.username !== "" || url.password !== "")
    return command.error(
      "error: --relay takes an http or https URL without user and password, such as http://127.0.0.1:9090",
    );
  const token = io.env[tokenEnv];
  if (token === undefined || token === "")
    command.error(
      `error: the environment variable ${tokenEnv} is not set (--token-env names another)`,
    );
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new CommandFailed(
      `the environment variable ${tokenEnv} holds no token: it has characters that none has`,
    );
  return { url: url.href.replace(/[?#].*$/, "").replace(/\/+$/, ""), token };
}

/** Throws when this process must not open the file. `why`: no relay answers for it. */
async function checkFile(path: string, why: string | null): Promise<void> {
  // Created here, the file would belong to the user of this command.
  if (isMissing(path))
    throw new CommandFailed(`there is no store at ${path} yet; "wamid-relay serve" makes it`);
  const { isLocked } = await import("../store/sqlite/file.ts");
  if (why === null || isLocked(path) !== true) return;
  const name = await readFileKey(path, "holder");
  const holder = `another wamid-relay process${name === null ? "" : ` (${name})`}`;
  throw new CommandFailed(
    `${path} is in use by ${holder}; ${why}: wait for its end if it is a command, or give the relay's address with --relay`,
  );
}

/** A client that reads the store in this process, beside relays that may use it. */
export async function readStore(
  settings: ReadingSettings,
  reveal?: boolean,
): Promise<ControlClient> {
  const [{ createReadingApi }, { storePlace }] = await Promise.all([
    import("../app/reading.ts"),
    import("../app/engine.ts"),
  ]);
  let fault: Error | null = null;
  const { http, close } = await createReadingApi(settings, (error) => {
    fault = error as Error;
  });
  return injected(http, { tokens: [], close, reveal }, () => {
    if (fault !== null)
      throw new CommandFailed(`${storePlace(settings.storage)} cannot be read: ${fault.message}`);
  });
}

async function writeStore(
  options: RelayOptions,
  io: Io,
  scope: Scope,
  calls: boolean,
): Promise<ControlClient> {
  const [
    { createRelay },
    { withStandIns },
    { MissingSecret, Secret },
    { readForLooking, readSettings },
  ] = await Promise.all([
    import("../app/relay.ts"),
    import("../config/load.ts"),
    import("../model/secret.ts"),
    import("./settings-option.ts"),
  ]);
  let { settings } = readForLooking(options, io);
  // The keys of the accounts may be missing only where the service is not called.
  if (
    calls &&
    Object.values(settings.accounts).some(({ apiKey }) => apiKey instanceof MissingSecret)
  )
    settings = readSettings(options, io);
  const startedAt = new Date().toISOString();
  const token = randomBytes(24).toString("hex");
  const tokens = [{ name: "cli", token: new Secret(token), scopes: [scope, "pii" as const] }];
  const { http, close } = await createRelay({
    settings: { ...withStandIns(settings), control: { ...settings.control, tokens } },
    log: { write: () => {}, end: async () => {} },
    dispatch: false,
    calls,
  });
  const wanted =
    calls && settings.storage.driver === "sqlite"
      ? watchForRelay(settings.storage.path, startedAt)
      : undefined;
  return injected(http, { tokens: [token], close, reveal: options.showPii, wanted });
}

/** Aborted when a relay that starts waits for the file. `since`: in ISO 8601. */
function watchForRelay(path: string, since: string): AbortSignal {
  const wanted = new AbortController();
  setInterval(async () => {
    if (((await readFileKey(path, "wanted")) ?? "") > since) wanted.abort();
  }, 500).unref();
  return wanted.signal;
}

/** What is written in the file about itself and its users; null when that is not known. */
async function readFileKey(path: string, key: FileKey): Promise<string | null> {
  const { openReader } = await import("../store/sqlite/reader.ts");
  try {
    const reader = openReader(path);
    try {
      return reader.file.key(key);
    } finally {
      await reader.close();
    }
  } catch {
    return null;
  }
}

/** Only `storage` must be without faults. Other faults are a note. */
async function settingsForLooking(
  storage: StorageSettings,
  options: RelayOptions,
  io: Io,
): Promise<ReadingSettings> {
  const { readForLooking } = await import("./settings-option.ts");
  try {
    return readForLooking(options, io).settings;
  } catch (error) {
    if (!(error instanceof CommandFailed)) throw error;
    io.err(
      `note: ${options.config} has faults, which "wamid-relay config check" lists; this command reads only the store`,
    );
    return { storage, routes: [], sources: {}, accounts: {} };
  }
}

/**
 * The address at which the relay of these settings can be reached from this machine; null when its
 * port is any free one.
 */
export function ownAddress({
  host,
  port,
  tls,
}: Pick<Settings["server"], "host" | "port" | "tls">): Reachable | null {
  if (port === 0) return null;
  const name = host === "0.0.0.0" ? "127.0.0.1" : host === "::" || host === "[::]" ? "::1" : host;
  const url = `${tls === undefined ? "http" : "https"}://${name.includes(":") && !name.startsWith("[") ? `[${name}]` : name}:${port}`;
  return { url, tls };
}

export function controlAddress(server: Settings["server"]): Reachable | null {
  return ownAddress(server.control ?? server);
}
