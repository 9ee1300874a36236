import type { SettledOutcome, Settlement } from "../../model/delivery.ts";
import { minuteMs } from "../../model/history.ts";
import { blankRow, deliveries, never, queue, queueState, settledState } from "../schema/tables.ts";
import {
  ask,
  find,
  insert,
  look,
  query,
  removal,
  remove,
  rows,
  together,
  type Work,
} from "../sql/ops.ts";
import { settle } from "./attempts.ts";
import type { Counts } from "./counts.ts";
import type { Process } from "./leases.ts";
import { overdue, routesIn, sortedLanes } from "./plans.ts";

/* No dispatcher picks up a proxied exchange. Its process settles it, or it is over after a minute. */

const exchange = look(queue, ["lane", "route", "event"], ["account"]);
const ownExchange = look(
  queue,
  ["lane", "route", "event", "state"],
  ["lane", "route", "event", "account"],
  { lock: "update" },
);
const left = removal(queue, { isLocked: true });

export function* settleExchanges(
  batch: readonly Settlement[],
  counts: () => Counts,
): Work<readonly SettledOutcome[]> {
  const found = yield* ask(find(exchange, batch, ({ event, route }) => [-event, route, event]));
  const here = batch.flatMap((settlement, place) => {
    const account = found[place]?.account;
    return account === undefined
      ? []
      : [
          {
            place,
            settling: { ...settlement, delivery: { ...fresh, account, lane: -settlement.event } },
          },
        ];
  });
  const settled = here.map(({ settling }) => settling);
  const outcomes = yield* settle(settled, counts, null);
  const byPlace = new Map(here.map(({ place }, index) => [place, outcomes[index]]));
  return batch.map((_, place) => byPlace.get(place) ?? { result: "late" });
}

const fresh = { spent: 0, replays: 0, cause: null };

export function* endLeftExchanges(
  at: number,
  reason: string,
  limit: number,
  counts: Counts,
  { isAlone }: Process,
): Work<number> {
  const routes = yield* rows(routesIn(queueState.exchange));
  // A process that is alone first ends those of the one before it.
  const lists = yield* together(
    routes.map(({ route }) =>
      query(overdue(queueState.exchange, route, isAlone ? never : at, limit)),
    ),
  );
  const keys = sortedLanes(
    lists
      .flat()
      .slice(0, limit)
      .map(({ lane, route, event }): [number, string, number] => [lane, route, event]),
  );
  const locked = yield* ask(find(ownExchange, keys, (key) => [...key, queueState.exchange]));
  const ended = locked.filter((row) => row !== undefined);
  for (const { account, route } of ended)
    counts.add({ at: Math.floor(at / minuteMs), account, series: "dead", of: route, label: "" }, 1);
  yield* together([
    remove(left, ended),
    insert(deliveries, ended, ({ event, route, account, lane }) => ({
      ...abandoned,
      event,
      route,
      account,
      lane,
      settled_at: at,
      reason,
    })),
  ]);
  yield* counts.write();
  return ended.length;
}

const abandoned = {
  ...blankRow(deliveries),
  state: settledState.dead,
  attempts: 0,
  spent: 0,
  replays: 0,
};
