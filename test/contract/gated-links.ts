import type { Redis as Client } from "ioredis";
import { StoreUnavailable } from "../../src/store/port.ts";
import type { RedisLink } from "../../src/store/redis/client.ts";
import { settled } from "../harness/manual-clock.ts";

export interface Gate {
  /** One command at a time, of all that wait any one. */
  readonly link: RedisLink;
  /**
   * A link that ends with its `last` command, which is done: `lost` gives no answer to it, nor to any after it, as of a
   * process that was killed; `refused` fails it alone, as a connection that was lost and is back. `ended` resolves then.
   */
  ending(last: number, how: "lost" | "refused"): { readonly link: RedisLink; readonly ended: Promise<void> };
  /** Resolves when no command waits. */
  idle(): Promise<void>;
}

/** Lets the commands of several processes through in an order of its own. `pick`: a number below the one given. */
export function createGate(client: Client, pick: (below: number) => number): Gate {
  const waiting: (() => Promise<void>)[] = [];
  let pumping: Promise<void> | null = null;

  async function pump(): Promise<void> {
    for (;;) {
      // All who are about to ask for something do.
      await settled(2);
      const [next] = waiting.splice(pick(Math.max(1, waiting.length)), 1);
      if (next === undefined) break;
      await next();
    }
    pumping = null;
  }

  function run<T>(command: (redis: Client) => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      waiting.push(() => command(client).then(resolve, reject));
      pumping ??= pump();
    });
  }

  return {
    link: { run },
    ending(last, how) {
      const ended = Promise.withResolvers<void>();
      let count = 0;
      const link: RedisLink = {
        async run(command) {
          count += 1;
          const isLast = count === last;
          const isOver = count > last;
          if (isOver && how === "lost") return new Promise(() => {});
          const result = await run(command);
          if (!isLast) return result;
          ended.resolve();
          if (how === "refused") throw new StoreUnavailable("the connection was lost");
          return new Promise(() => {});
        },
      };
      return { link, ended: ended.promise };
    },
    async idle() {
      while (pumping !== null) await pumping;
    },
  };
}
