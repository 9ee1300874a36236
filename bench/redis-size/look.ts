import { setTimeout as wait } from "node:timers/promises";
import { Redis } from "ioredis";

/** What Redis says of itself at one moment. */
export interface Look {
  /** Bytes of memory, but for scripts, and what clients and the append-only file have in transit. */
  readonly bytes: number;
  /** Bytes of the append-only file. */
  readonly aofBytes: number;
  /** Seconds of a processor that the thread which serves commands has used. */
  readonly cpuSeconds: number;
  /** Jobs that wait for a worker. */
  readonly jobs: number;
}

export async function lookAtRedis(url: string): Promise<Look> {
  return withClient(url, async (redis) => {
    const [said, clients] = await atOneMoment(redis);
    const info = readInfo(said);
    const number = (name: string): number => Number(info.get(name) ?? Number.NaN);
    const inTransit = clientBytes(clients) + number("mem_aof_buffer");
    return {
      bytes: number("used_memory") - number("used_memory_scripts") - inTransit,
      aofBytes: number("aof_current_size"),
      cpuSeconds: number("used_cpu_user_main_thread") + number("used_cpu_sys_main_thread"),
      jobs: await redis.llen("{relay}:work:wait"),
    };
  });
}

async function atOneMoment(redis: Redis): Promise<[info: string, clients: string]> {
  const answers = await redis.multi().info().client("LIST").exec();
  const [info, clients] = (answers ?? []).map(([error, text]) => {
    if (error !== null) throw error;
    return text;
  });
  if (typeof info !== "string" || typeof clients !== "string") throw new Error("Redis did not say what it holds");
  return [info, clients];
}

/**
 * INFO's `mem_clients_normal` is what Redis last noted of each client, and it notes in turns: a buffer that a burst made large
 * and that has long been freed was seen to count there for 300,000 bytes. CLIENT LIST works it out when it is asked.
 */
function clientBytes(clients: string): number {
  const each = [...clients.matchAll(/ tot-mem=(\d+)/g)].map(([, bytes]) => Number(bytes));
  return each.length === 0 ? Number.NaN : each.reduce((sum, bytes) => sum + bytes, 0);
}

/** Has the append-only file written anew, and waits: what is left is what is stored. Gives its bytes. */
export async function rewriteAof(url: string): Promise<number> {
  return withClient(url, async (redis) => {
    await redis.bgrewriteaof();
    for (;;) {
      const info = readInfo(await redis.info("persistence"));
      if (info.get("aof_rewrite_in_progress") === "0" && info.get("aof_rewrite_scheduled") === "0")
        return Number(info.get("aof_current_size"));
      await wait(50);
    }
  });
}

async function withClient<T>(url: string, use: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = new Redis(url);
  try {
    return await use(redis);
  } finally {
    redis.disconnect();
  }
}

function readInfo(text: string): Map<string, string> {
  return new Map(text.split("\r\n").flatMap((line) => (line.includes(":") ? [line.split(":", 2) as [string, string]] : [])));
}
