import type { CallCount, DayCalls, RecentCall } from "../service-port.ts";
import type { RedisLink } from "./client.ts";
import { type Commit, type Operation, pushOperations } from "./commit.ts";
import type { Keys } from "./keys.ts";
import type { Argument } from "./script.ts";

/** As long as any month with the days around it. */
const keptMs = 62 * 86_400_000;

interface Parts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly commit: Commit;
}

/** How often the service was called, by all processes together. */
export function createServiceCalls({ keys, link, commit }: Parts) {
  return {
    /** The days from `from` on, earliest first. */
    async serviceCalls(account: string, from: number): Promise<DayCalls[]> {
      const found = await link.run((redis) => redis.hgetall(keys.of(`calls:${account}`)));
      const days = new Map<number, { polls: number; others: number }>();
      for (const [field, count] of Object.entries(found)) {
        const [day, what] = field.split(":");
        if (Number(day) < from) continue;
        const calls = days.get(Number(day)) ?? { polls: 0, others: 0 };
        calls[what === "polls" ? "polls" : "others"] = Number(count);
        days.set(Number(day), calls);
      }
      return [...days].toSorted(([a], [b]) => a - b).map(([day, calls]) => ({ day, ...calls }));
    },
    async addServiceCalls(counts: readonly CallCount[]): Promise<void> {
      if (counts.length === 0) return;
      const operations: Operation[] = [];
      for (const { account, day, polls, others } of counts) {
        const key = keys.of(`calls:${account}`);
        operations.push(["call", "HINCRBY", key, `${day}:polls`, String(polls)], ["call", "HINCRBY", key, `${day}:others`, String(others)]);
        const old = (await link.run((redis) => redis.hkeys(key))).filter((field) => Number(field.split(":")[0]) < day - keptMs);
        if (old.length > 0) operations.push(["call", "HDEL", key, ...old]);
      }
      const list: Argument[] = ["T", "0"];
      pushOperations(list, operations);
      await commit.run({ list });
    },
    /** Processes share the caps themselves (shared-slots.ts): a call of one that died is still counted there. */
    recentCalls: (_account: string, _from: number): readonly RecentCall[] => [],
    noteCall: async (_account: string, _call: RecentCall): Promise<void> => {},
  };
}
