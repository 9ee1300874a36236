import { setTimeout as wait } from "node:timers/promises";
import { Redis } from "ioredis";

/** What Redis says of itself at one moment. */
export interface Look {
  /** Bytes of memory, but for what clients and the append-only file have in transit. */
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
    const info = readInfo(await redis.info());
    const number = (name: string): number => Number(info.get(name) ?? Number.NaN);
    return {
      bytes: number("used_memory") - number("mem_clients_normal") - number("mem_aof_buffer"),
      aofBytes: number("aof_current_size"),
      cpuSeconds: number("used_cpu_user_main_thread") + number("used_cpu_sys_main_thread"),
      jobs: await redis.llen("{relay}:work:wait"),
    };
  });
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
