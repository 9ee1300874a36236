import { setImmediate as nextTurn } from "node:timers/promises";
import { type DeliveryState, deliveryStates } from "../../event/delivery.ts";
import { type Disposition, dispositions } from "../../event/plan.ts";
import type { Stats } from "../reading.ts";
import { type RedisLink, runPipeline } from "./client.ts";
import { stateCode, stateOf } from "./event-rows.ts";
import type { Keys } from "./keys.ts";
import { readScript } from "./script.ts";
import type { LiveSeqs, StoredEvent, StoredEvents } from "./stored-events.ts";

const failedScript = readScript("failed-attempts");

/** Events looked at in one step: about a millisecond of this process, and less of Redis. */
const sliceEvents = 200;
/** Attempts that one run of the script looks at: each may have 4 KiB with it. */
const mostAttempts = 200;

interface Counted {
  readonly event: number;
  readonly route: string;
  readonly state: string;
  readonly made: number;
}

export interface CountStatsParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly live: LiveSeqs;
  readonly events: StoredEvents;
}

/** Counts every row, some events with all that hangs on them at a time, so that neither Redis nor this process is held up. */
export function createCountStats({ keys, link, live, events }: CountStatsParts) {
  async function deliveriesOf(rows: readonly StoredEvent[]): Promise<Counted[]> {
    const plans = await events.verdicts(rows);
    const asked = rows.flatMap(({ seq }, index) =>
      (plans[index] ?? []).flatMap(([route, verdict]) => (verdict === "deliver" ? [{ event: seq, route }] : [])),
    );
    if (asked.length === 0) return [];
    const answers = await runPipeline(link, (commands) => {
      for (const { event, route } of asked) commands.hmget(keys.delivery(event, route), "s", "a");
    });
    return answers.flatMap((fields, index) => {
      const [state, made] = fields as [string | null, string | null];
      return state === null ? [] : [{ ...(asked[index] as (typeof asked)[number]), state, made: Number(made ?? 0) }];
    });
  }

  async function failedOf(counted: readonly Counted[]): Promise<number> {
    let failed = 0;
    let list: string[] = [];
    let attempts = 0;
    const flush = async (): Promise<void> => {
      if (list.length === 0) return;
      const found = (await link.run((redis) => failedScript.run(redis, `${keys.base}seq`, [keys.base, ...list]))) as number[];
      failed += found.reduce((sum, one) => sum + one, 0);
      list = [];
      attempts = 0;
    };
    for (const { event, route, state, made } of counted) {
      // Taken at the first attempt, as most are: there is nothing to look up.
      if (made === 0 || (made === 1 && state === stateCode("delivered"))) continue;
      if (attempts + made > mostAttempts) await flush();
      list.push(String(event), route, String(made));
      attempts += made;
    }
    await flush();
    return failed;
  }

  async function duplicatesOf(rows: readonly StoredEvent[]): Promise<number> {
    if (rows.length === 0) return 0;
    const found = await link.run((redis) => redis.hmget(`${keys.base}dups`, ...rows.map(({ seq }) => String(seq))));
    return found.reduce((sum, one) => sum + Number(one ?? 0), 0);
  }

  return async function countStats(): Promise<Stats> {
    const byDisposition = Object.fromEntries(dispositions.map((word) => [word, 0])) as Record<Disposition, number>;
    const byState = Object.fromEntries(deliveryStates.map((word) => [word, 0])) as Record<DeliveryState, number>;
    const sum = { duplicates: 0, made: 0, failed: 0 };
    for await (const seqs of live.forth(0, Number.MAX_SAFE_INTEGER, sliceEvents)) {
      const rows = await events.rows(seqs);
      for (const { disposition } of rows) byDisposition[disposition] += 1;
      sum.duplicates += await duplicatesOf(rows);
      const counted = await deliveriesOf(rows);
      for (const { state, made } of counted) {
        byState[stateOf(state)] += 1;
        sum.made += made;
      }
      sum.failed += await failedOf(counted);
      await nextTurn();
    }
    return {
      dispositions: byDisposition,
      duplicates: sum.duplicates,
      deliveries: byState,
      attempts: { made: sum.made, failed: sum.failed },
    };
  };
}
