import type { Command } from "commander";
import type { Scope, Settings } from "../config/schema.ts";
import {
  type ControlAnswer,
  type ControlClient,
  connectRelay,
  openForLooking,
  openStore,
  ownAddress,
  whoListens,
} from "./control-client.ts";
import { CommandFailed, type Io } from "./io.ts";
import type { RelayOptions } from "./relay-options.ts";

/** Runs `use` on the store of the settings, beside relays that may run, or on the relay at `--relay`. */
export async function withReading<T>(
  command: Command,
  options: RelayOptions,
  io: Io,
  use: (client: ControlClient) => Promise<T>,
): Promise<T> {
  const remote = remoteRelay(command, options, io);
  return using(remote ?? (await openForLooking(await settingsOf(options, io))), use);
}

/**
 * Runs `use` on the relay at `--relay`, else on the one of the settings when it runs, else on its file; on its Redis, where
 * the settings have one, whether a relay runs or not.
 * The token is the first of the settings that has `scope`.
 */
export async function withWriting<T>(
  command: Command,
  options: RelayOptions,
  io: Io,
  scope: Scope,
  use: (client: ControlClient) => Promise<T>,
): Promise<T> {
  const remote = remoteRelay(command, options, io);
  return using(remote ?? (await ownRelay(options.config, await settingsOf(options, io), scope)), use);
}

/** The body of a 2xx answer. Throws {@link CommandFailed} with what the relay says is wrong. */
export function expectDone({ status, json }: ControlAnswer): unknown {
  if (status >= 200 && status < 300) return json;
  const { error, code } = json as { error?: unknown; code?: unknown };
  if (typeof error !== "string") throw new CommandFailed(`answered ${status}, and not as a wamid-relay would`);
  if (code === "unauthorized") throw new CommandFailed(`the relay does not know the token: ${error}`);
  throw new CommandFailed(error);
}

/** Loaded here: with `--relay` no settings are read. */
async function settingsOf({ config }: RelayOptions, io: Io): Promise<Settings> {
  const { readSettings } = await import("./settings-option.ts");
  return readSettings(config, io);
}

async function using<T>(client: ControlClient, use: (client: ControlClient) => Promise<T>): Promise<T> {
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}

function remoteRelay(command: Command, { relay, tokenEnv }: RelayOptions, io: Io): ControlClient | null {
  if (relay === undefined) return null;
  const url = URL.parse(relay);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") {
    command.error("error: --relay takes an http or https URL without user and password, such as https://relay.example");
  }
  const token = io.env[tokenEnv];
  if (token === undefined || token === "")
    command.error(`error: the environment variable ${tokenEnv} is not set (--token-env names another)`);
  if (!/^[\x21-\x7e]+$/.test(token))
    throw new CommandFailed(`the environment variable ${tokenEnv} holds no token: it has characters that none has`);
  return connectRelay(url.href.replace(/\/+$/, ""), token);
}

async function ownRelay(config: string, settings: Settings, scope: Scope): Promise<ControlClient> {
  // A Redis is any process's to write into; what listens here may only work, and have no control API.
  if (settings.storage.driver === "redis") return openStore(settings, scope);
  const url = ownAddress(settings.server);
  const found = url === null ? "nobody" : await whoListens(url);
  if (url === null || found === "nobody") {
    try {
      return await openStore(settings, scope);
    } catch (error) {
      if (error instanceof CommandFailed && error.message.includes(" is in use by ")) {
        const where = url === null ? "server.port is 0, so its address is not known" : `nothing answers at ${url}`;
        throw new CommandFailed(`${error.message}; ${where}: give it with --relay`);
      }
      throw error;
    }
  }
  if (found === "stranger") throw new CommandFailed(`what listens at ${url} is no wamid-relay; give the relay's address with --relay`);
  const token = settings.control.tokens.find(({ scopes }) => scopes.includes(scope));
  if (token === undefined) {
    throw new CommandFailed(`no token in ${config} has the scope ${scope} (control.tokens); add one, or use --relay with --token-env`);
  }
  return connectRelay(url, token.token.reveal());
}
