import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { Command, type Redis } from "ioredis";

export type Argument = string | Buffer;

/**
 * A Lua script, sent by its digest; the whole text goes only to a server that does not know it. The texts of `parts` come
 * before that of `lua/<name>.lua`, after its first line, which ends with `flags`. `key` of a run is any key of the relay: it
 * selects the slot of the Cluster, which has all keys of the script.
 */
export function readScript(name: string, parts: readonly string[] = [], flags = "") {
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
    /** Returns text. Rejects as the server answers. */
    run: (redis: Redis, key: string, list: Argument[]) => run(redis, key, list, "utf8"),
    /** Returns bytes. */
    runBuffer: (redis: Redis, key: string, list: Argument[]) => run(redis, key, list, null),
  };
}

/**
 * The declared keys of a script, after their number. While a Cluster moves the slot, a script on one node would not see the
 * keys on the other, and would write them again. With two keys of which one never exists, both nodes answer TRYAGAIN until
 * the slot has moved.
 */
function countedKeys(redis: Redis, key: string): string[] {
  return redis.isCluster ? ["2", key, `${key.slice(0, key.indexOf("}") + 1)}:never`] : ["1", key];
}

async function send(redis: Redis, name: string, list: Argument[], replyEncoding: "utf8" | null): Promise<unknown> {
  const command = new Command(name, list, { replyEncoding });
  try {
    return await redis.sendCommand(command);
  } finally {
    // The client stores a function in a property of each command, and V8 allocates such functions in the old space: they
    // would keep the arguments until the next full collection.
    command.args.length = 0;
  }
}

export type Script = ReturnType<typeof readScript>;
