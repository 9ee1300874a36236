import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { ownAddress } from "../control-client.ts";
import { CommandFailed, type Io } from "../io.ts";

export interface RelayAddress {
  /** Without a slash at its end. */
  readonly url: string;
  /** Read again for each connection, so that a new token counts. Throws {@link CommandFailed} when there is none. */
  token(): string;
}

export interface AddressOptions {
  readonly config: string;
  readonly relay?: string;
  readonly tokenEnv: string;
  readonly tokenFile?: string;
  readonly token?: string;
}

/** The relay at `--relay`, with the token given, or the one of the settings, with its first token that may listen. */
export async function relayAddress(command: Command, options: AddressOptions, io: Io): Promise<RelayAddress> {
  const { relay, tokenEnv, tokenFile, token, config } = options;
  if (relay === undefined) return ownRelay(config, io);
  const url = URL.parse(relay);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== "" || url.password !== "") {
    command.error("error: --relay takes an http or https URL without user and password, such as https://relay.example");
  }
  const read = (): string => {
    if (token !== undefined) return token;
    if (tokenFile !== undefined) return fileText(tokenFile);
    return io.env[tokenEnv] ?? "";
  };
  if (token === undefined && tokenFile === undefined && read() === "")
    command.error(`error: the environment variable ${tokenEnv} is not set (--token-env names another, --token-file a file)`);
  const checked = (): string => {
    const text = read();
    if (!/^[\x21-\x7e]+$/.test(text))
      throw new CommandFailed("what was given as the token is none: it is empty, or has characters that none has");
    return text;
  };
  checked();
  return { url: url.href.replace(/[?#].*$/, "").replace(/\/+$/, ""), token: checked };
}

/** With `--relay` no settings are read, nor what reads them loaded. */
async function ownRelay(config: string, io: Io): Promise<RelayAddress> {
  const { readSettings } = await import("../settings-option.ts");
  const url = ownAddress(readSettings(config, io).server);
  if (url === null) throw new CommandFailed("server.port is 0, so the relay's address is not known: give it with --relay");
  const token = (): string => {
    const found = readSettings(config, io).control.tokens.find(({ scopes }) => scopes.includes("listen"));
    if (found === undefined)
      throw new CommandFailed(`no token in ${config} has the scope listen (control.tokens); add one, or use --relay`);
    return found.token.reveal();
  };
  token();
  return { url, token };
}

function fileText(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    throw new CommandFailed(`the token's file cannot be read: ${(error as Error).message}`);
  }
}
