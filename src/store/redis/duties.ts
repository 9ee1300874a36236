import { randomUUID } from "node:crypto";
import type { RedisLink } from "./link.ts";
import { readScript } from "./script.ts";

export interface Duties {
  /** Whether this process has the duty for the next `forMs`; nobody else does meanwhile. Asking again renews it. */
  take(name: string, forMs: number): Promise<boolean>;
  /** Takes it and renews it until it is let go. */
  keep(name: string): Promise<boolean>;
  letGo(name: string): Promise<void>;
  /** Lets go of all that is kept. */
  close(): Promise<void>;
}

const script = readScript("duty");
/** A process that died leaves what it kept to others after this. */
const keptMs = 30_000;
const renewEveryMs = 10_000;

/**
 * What one process of many does for all. Redis counts the time, so that clocks need not agree. A process that was held up
 * for longer can find that another does the same: duties save work, and no promise rests on them.
 */
export function createDuties(base: string, link: RedisLink): Duties {
  const holder = randomUUID();
  const kept = new Set<string>();
  let timer: NodeJS.Timeout | undefined;

  async function ask(name: string, ms: string): Promise<boolean> {
    return (await link.run((redis) => script.run(redis, `${base}duty:${name}`, [holder, ms]))) === 1;
  }

  const take = (name: string, forMs: number) => ask(name, String(forMs));

  /** While Redis is away nobody can take it either. */
  const renew = () => void Promise.allSettled([...kept].map((name) => take(name, keptMs)));

  async function letGo(name: string): Promise<void> {
    kept.delete(name);
    if (kept.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
    await ask(name, "");
  }

  return {
    take,
    async keep(name) {
      if (!(await take(name, keptMs))) return false;
      kept.add(name);
      timer ??= setInterval(renew, renewEveryMs).unref();
      return true;
    },
    letGo,
    async close() {
      // One that cannot be let go now ends by itself.
      await Promise.allSettled([...kept].map(letGo));
    },
  };
}
