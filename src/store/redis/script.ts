import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { Command, type Redis } from "ioredis";

export type Argument = string | Buffer;

/** A Lua script, sent by its digest; the whole text goes only to a server that does not know it. */
export interface Script {
  /** Text in, text out. Rejects as the server answers. */
  run(redis: Redis, key: string, list: Argument[]): Promise<unknown>;
  /** The same with bytes out. */
  runBuffer(redis: Redis, key: string, list: Argument[]): Promise<unknown>;
}

/**
 * Reads `lua/<name>.lua`; the texts of `parts` stand before its own, after the first line, which tells Redis what it is
 * and ends with `flags`. `key` of a run is any key of the relay: it names the slot of the Cluster, and every other key of
 * the script is in the same one.
 */
export function readScript(name: string, parts: readonly string[] = [], flags = ""): Script {
  const read = (file: string): string => readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), "utf8");
  const own = read(name);
  const lua = own.replace("\n", () => `${flags}\n${parts.map((part) => `${read(part)}\n`).join("")}`);
  const digest = createHash("sha1").update(lua).digest("hex");

  async function run(redis: Redis, key: string, list: Argument[], replyEncoding: "utf8" | null): Promise<unknown> {
    try {
      return await send(redis, "evalsha", [digest, ...countedKeys(redis, key), ...list], replyEncoding);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      return send(redis, "eval", [lua, ...countedKeys(redis, key), ...list], replyEncoding);
    }
  }

  return {
    run: (redis, key, list) => run(redis, key, list, "utf8"),
    runBuffer: (redis, key, list) => run(redis, key, list, null),
  };
}

/**
 * Their number, and what a script names as its keys. In a Cluster that is moving the slot, a script would find on one node
 * nothing of what is still, or already, on the other, and write what was there: an id anew, a list beside the list. Two keys
 * of which one never is there are answered TRYAGAIN by both nodes until all has moved.
 */
function countedKeys(redis: Redis, key: string): string[] {
  return redis.isCluster ? ["2", key, `${key.slice(0, key.indexOf("}") + 1)}:never`] : ["1", key];
}

async function send(redis: Redis, name: string, list: Argument[], replyEncoding: "utf8" | null): Promise<unknown> {
  const command = new Command(name, list, { replyEncoding });
  try {
    return await redis.sendCommand(command);
  } finally {
    // The client writes a function straight into a property of each command, and V8, which takes such for methods, makes
    // them among the old: with them all that a command carries would be kept until the next full collection.
    command.args.length = 0;
  }
}
