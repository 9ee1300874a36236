import { randomUUID } from "node:crypto";
import type { RedisLink } from "./client.ts";
import { readScript } from "./script.ts";

export interface Duties {
  /** Whether this process has the duty for the next `forMs`; nobody else does meanwhile. Asking again renews it. */
  take(name: string, forMs: number): Promise<boolean>;
  /** Lets go of all that was taken, so that others need not wait. */
  close(): Promise<void>;
}

const script = readScript("duty");

/**
 * What one process of many does for all. Redis counts the time, so that clocks need not agree. A process that was held up
 * for longer than it asked for can find that another does the same: duties save work, and no promise rests on them.
 */
export function createDuties(base: string, link: RedisLink): Duties {
  const holder = randomUUID();
  const taken = new Set<string>();

  async function ask(name: string, ms: string): Promise<boolean> {
    return (await link.run((redis) => script.run(redis, `${base}duty:${name}`, [holder, ms]))) === 1;
  }

  return {
    async take(name, forMs) {
      const isOurs = await ask(name, String(forMs));
      if (isOurs) taken.add(name);
      else taken.delete(name);
      return isOurs;
    },
    async close() {
      // One that cannot be let go now ends by itself.
      await Promise.allSettled([...taken].map((name) => ask(name, "")));
    },
  };
}
