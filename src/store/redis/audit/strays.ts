import type { Tally } from "../../audit.ts";
import { type RedisLink, runPipeline } from "../client.ts";
import type { Keys } from "../keys.ts";

const lists = ["due", "leased", "held", "dead", "px"] as const;
/** Members of a list in one answer, more or less. */
const atOnce = 500;

/** Deliveries that a list has and whose event is not there. `last`: newer ones are not looked at. */
export async function findStrays({ keys, link }: { keys: Keys; link: RedisLink }, tally: Tally<string>, last: number): Promise<void> {
  async function strays(route: string, list: string, members: readonly string[]): Promise<void> {
    const old = members.filter((member) => Number(member) <= last);
    if (old.length === 0) return;
    const found = await runPipeline(link, (commands) => {
      for (const member of old) commands.exists(keys.event(Number(member)));
    });
    for (const [index, member] of old.entries()) {
      const seq = Number(member);
      if (found[index] === 1) continue;
      // Retention may have taken both meanwhile.
      if ((await link.run((redis) => redis.zscore(keys.of(`${list}:${route}`), member))) === null) continue;
      tally.offence("delivery without event", seq, route, "there is no such event");
    }
  }

  for (const route of await link.run((redis) => redis.smembers(keys.of("routes")))) {
    for (const list of lists) {
      let cursor = "0";
      do {
        const [next, found] = await link.run((redis) => redis.zscan(keys.of(`${list}:${route}`), cursor, "COUNT", atOnce));
        cursor = next;
        await strays(
          route,
          list,
          found.filter((_, index) => index % 2 === 0),
        );
      } while (cursor !== "0");
    }
  }
}
