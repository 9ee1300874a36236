import { readFileSync } from "node:fs";
import type { Redis } from "ioredis";

/** A Lua script, sent by its digest; the whole text goes only to a server that does not know it. */
export interface Script {
  /** Text in, text out. Rejects as the server answers. */
  run(redis: Redis, key: string, list: (string | Buffer)[]): Promise<unknown>;
  /** The same with bytes out. */
  runBuffer(redis: Redis, key: string, list: (string | Buffer)[]): Promise<unknown>;
}

type Commands = Record<string, (...order: unknown[]) => Promise<unknown>>;

/**
 * Reads `lua/<name>.lua`; the text of `common` stands before its own, after the first line, which tells Redis what it is.
 * `key` of a run is any key of the relay: it names the slot of the Cluster, and every other key of the script is in the
 * same one.
 */
export function readScript(name: string, common?: string): Script {
  const read = (file: string): string => readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), "utf8");
  const own = read(name);
  const lua = common === undefined ? own : own.replace("\n", () => `\n${read(common)}\n`);
  const command = `relay_${name.replaceAll("-", "_")}`;
  const known = new WeakSet<Redis>();

  function of(redis: Redis): Commands {
    if (!known.has(redis)) {
      redis.defineCommand(command, { numberOfKeys: 1, lua });
      known.add(redis);
    }
    return redis as unknown as Commands;
  }

  return {
    run: (redis, key, list) => (of(redis)[command] as Commands[string]).call(redis, key, ...list),
    runBuffer: (redis, key, list) => (of(redis)[`${command}Buffer`] as Commands[string]).call(redis, key, ...list),
  };
}
