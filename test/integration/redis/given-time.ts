import type { RedisLink } from "../../../src/store/redis/client.ts";
import { redisOfFile } from "../../contract/redis-of-file.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";

/** A Redis for the tests of a file, and time that goes on when told to: also for the scripts, which are given it. */
export function useGivenTime() {
  const { client } = redisOfFile();
  let names = 0;
  return {
    /** A name that no other test has used. */
    fresh(): string {
      names += 1;
      return `n${names}`;
    },
    client,
    world() {
      const clock = createManualClock();
      let underWay = 0;
      let calls = 0;

      async function quiet(): Promise<void> {
        do await settled(2);
        while (underWay > 0);
      }

      return {
        clock,
        calls: () => calls,
        /** Resolves once every answer has come, and what follows from it. */
        quiet,
        async advance(ms: number, stepMs = 25) {
          for (let left = ms; left > 0; left -= stepMs) {
            await clock.advance(Math.min(left, stepMs));
            await quiet();
          }
        },
        /** The way of one process to Redis; it can be cut. */
        link(): RedisLink & { cut: boolean } {
          return {
            cut: false,
            async run(command) {
              calls += 1;
              underWay += 1;
              try {
                if (this.cut) throw new Error("cut off");
                return await command(client());
              } finally {
                underWay -= 1;
              }
            },
          };
        },
      };
    },
  };
}
