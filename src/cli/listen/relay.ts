import type { Command } from "commander";
import { type Connection, connect } from "../../client/connection.ts";
import { fetchOf, type Reachable } from "../control-client.ts";
import { CommandFailed, type Io } from "../io.ts";
import type { RelayOptions, SettingsOptions } from "../options.ts";
import { controlAddress, noToken, remoteAddress, tokensWith } from "../reach-relay.ts";

export interface RelayAddress extends Reachable {
  /**
   * Read again for each request, so that a new token counts. Throws {@link CommandFailed} when
   * there is none.
   */
  token(): string;
}

/** The relay at `--relay`, or the one of the settings, with its first token that may listen. */
export async function relayAddress(
  command: Command,
  options: RelayOptions,
  io: Io,
): Promise<RelayAddress> {
  const remote = remoteAddress(command, options, io);
  return remote === null ? ownRelay(options, io) : { url: remote.url, token: () => remote.token };
}

/** With `--relay` no settings are read, nor what reads them loaded. */
async function ownRelay({ config, envFile }: SettingsOptions, io: Io): Promise<RelayAddress> {
  const [{ readPart }, { loadParts }] = await Promise.all([
    import("../settings-option.ts"),
    import("../../config/load.ts"),
  ]);
  const at = controlAddress(readPart("server", { config, envFile }, io));
  if (at === null)
    throw new CommandFailed(
      "server.port is 0, so the relay's address is not known: give it with --relay",
    );
  const token = (): string => {
    const { tokens = [], unusableTokens = [] } = loadParts(config, io.env, envFile) ?? {};
    const [found] = tokensWith("listen", tokens);
    if (found === undefined)
      throw new CommandFailed(noToken(config, "listen", at.url, unusableTokens));
    return found.token.reveal();
  };
  return { ...at, token };
}

/** Longest wait for a connection, and for the first bytes of an answer. */
const timeoutMs = 20_000;

/**
 * Each request has a connection of its own: one that was cut somewhere on the way is not used
 * again.
 */
export function connectListener(relay: RelayAddress): Connection {
  // Silence is the follower's, which knows of sleep.
  const fetching = fetchOf(relay, { pipelining: 0, bodyTimeout: 0, connectTimeout: timeoutMs });
  return connect({
    url: relay.url,
    token: relay.token(),
    timeoutMs,
    fetch: (url, init) =>
      fetching(String(url), {
        ...init,
        headers: { ...init?.headers, authorization: `Bearer ${relay.token()}` },
      }),
  });
}

/** Pause between two updates: each is a commit at the relay. */
const everyMs = 50;
const afterFailureMs = 2_000;

/**
 * Stores the newest position of a name at the relay, one update at a time. `store` rejects when
 * that failed; after `over` is aborted there are no more background updates.
 */
export function createCursor(parts: {
  store(seq: number): Promise<void>;
  wait(ms: number): Promise<void>;
  readonly over: AbortSignal;
}) {
  const { store, wait, over } = parts;
  let wanted = -1;
  let known = -1;
  let isStoring = false;

  async function once(): Promise<boolean> {
    const seq = wanted;
    try {
      await store(seq);
      known = Math.max(known, seq);
      return true;
    } catch {
      return false;
    }
  }

  async function run(): Promise<void> {
    isStoring = true;
    while (known < wanted && !over.aborted) await wait((await once()) ? everyMs : afterFailureMs);
    isStoring = false;
  }

  return {
    /** Everything up to this event is done with. */
    moved(seq: number): void {
      if (seq <= wanted) return;
      wanted = seq;
      if (!isStoring) void run();
    },
    async flush(): Promise<void> {
      if (known < wanted) await once();
    },
  };
}
