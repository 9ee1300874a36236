import { type Command, InvalidArgumentError } from "commander";
import type { z } from "zod";
import type { Scope, Settings } from "../config/schema.ts";
import { durationSchema } from "../model/units.ts";
import {
  type ControlAnswer,
  type ControlClient,
  connectRelay,
  openForLooking,
  openStore,
  ownAddress,
  probeListener,
} from "./control-client.ts";
import { pageOf, readAnswer } from "./control-views.ts";
import { CommandFailed, type Io } from "./io.ts";
import { checkedOption, type RelayOptions, relayUrl, type TimeOptions } from "./options.ts";

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

/** The body of a 2xx answer. Throws {@link CommandFailed} with the relay's error message. */
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
  const url = relayUrl(command, relay);
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
  const found = url === null ? "nobody" : await probeListener(url);
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

/** Most rows of one page of the API. */
const largestPage = 1000;

interface Listing<T, N> {
  readonly data: readonly T[];
  /** For `--before`; null when nothing is left. */
  readonly next: N | null;
  /** Number of oldest unplanned events that a search by wamid did not cover. */
  readonly unseen: number;
}

/** Reads pages until there are `limit` rows, or no more. */
export async function readPages<T extends z.ZodType, N extends z.ZodType>(
  client: ControlClient,
  path: string,
  query: Readonly<Record<string, string | undefined>>,
  limit: number,
  schemas: { readonly item: T; readonly next: N },
): Promise<Listing<z.infer<T>, z.infer<N>>> {
  const page = pageOf(schemas.item, schemas.next);
  const data: z.infer<T>[] = [];
  let before = query["before"];
  let unseen = 0;
  for (;;) {
    const parameters = { ...query, before, limit: String(Math.min(largestPage, limit - data.length)) };
    const given = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const answer = readAnswer(page, expectDone(await client.request("GET", `${path}?${new URLSearchParams(given)}`))) as {
      data: z.infer<T>[];
      next: z.infer<N> | null;
      unseen: number;
    };
    // Earlier pages count too: this page continued with older events.
    unseen = Math.max(unseen, answer.unseen);
    data.push(...answer.data);
    if (answer.next === null || data.length >= limit) return { data, next: answer.next, unseen };
    before = String(answer.next);
  }
}

/** The options as the API takes them, in ISO 8601. */
export function timeFilter(command: Command, { from, to, since }: TimeOptions, now: number): { from?: string; to?: string } {
  const start = since === undefined ? from : new Date(now - checkedOption(command, "since", since, duration)).toISOString();
  return { ...(start === undefined ? {} : { from: start }), ...(to === undefined ? {} : { to }) };
}

function duration(text: string): number {
  const parsed = durationSchema.safeParse(text);
  if (!parsed.success) throw new InvalidArgumentError("It must be a duration, such as 30m, 2h or 7d.");
  return parsed.data;
}
