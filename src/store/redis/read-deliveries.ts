import type { DeliveryState } from "../../model/delivery.ts";
import { deliveryId, type EventId, parseDeliveryId, routeTag } from "../../model/ids.ts";
import { parseMask, parseMaskedDelivery } from "../../model/mask.ts";
import type { DeliveryReading } from "../reading.ts";
import {
  type AttemptView,
  addDeliveries,
  type DeliveryCounts,
  type DeliveryFilter,
  type DeliveryGroupView,
  type DeliveryPlace,
  type DeliveryView,
  type GroupFilter,
  noDeliveries,
  type OfEvent,
} from "../views.ts";
import { runMulti, runPipeline } from "./client.ts";
import { readAttempt, rowsAtOnce, type StoredEvent, stateOf } from "./event-rows.ts";
import type { StoredParts } from "./live-seqs.ts";
import { readScript } from "./script.ts";

/** `place`: index of its route in the event's plan, from 1. */
interface Placed {
  readonly view: DeliveryView;
  readonly place: number;
}

interface Planned {
  readonly row: StoredEvent;
  readonly route: string;
  readonly place: number;
}

interface Group extends Pick<DeliveryGroupView, "route" | "state" | "cause" | "count"> {
  readonly oldest: number | null;
  readonly newest: number | null;
}

const statesScript = readScript("delivery-states");

/** Commands in one pipeline: a few hundred microseconds of Redis. */
const mostCommands = 1_000;

/** States that have an index in the list's order. */
const indexed: Partial<Record<DeliveryState, string>> = { dead: "dead", held: "held" };
/** Lists of waiting deliveries, ordered by time. */
const waitingLists = ["due", "leased", "px"] as const;
/** Up to this many waiting deliveries are read to find the newest; if there are more, a walk over events finds some soon. */
const mostWaiting = 2_000;

/** An event has deliveries on the routes with the verdict `deliver`, whatever their state. */
export function createReadDeliveries({ keys, link, live, events }: StoredParts) {
  /** The planned deliveries of events, in the list's order; `route`: on that route only. */
  async function plannedOf(rows: readonly StoredEvent[], route?: string): Promise<Planned[]> {
    const plans = await events.verdicts(rows);
    return rows.flatMap((row, index) =>
      [...(plans[index] ?? [])]
        .map(([name, verdict], place) => ({ row, route: name, verdict, place: place + 1 }))
        .filter((one) => one.verdict === "deliver" && (route === undefined || one.route === route))
        .reverse(),
    );
  }

  async function deliveriesOf(rows: readonly StoredEvent[], route?: string): Promise<Placed[]> {
    const found: Placed[] = [];
    for (const some of inParts(await plannedOf(rows, route), mostCommands)) {
      const answers = await runPipeline(link, (commands) => {
        for (const one of some) commands.hmget(keys.delivery(one.row.seq, one.route), "s", "a", "rp", "n", "t", "r", "k");
      });
      for (const [index, fields] of answers.entries()) {
        const { row, route: name, place } = some[index] as Planned;
        const view = viewOf(row, name, fields as (string | null)[]);
        if (view !== null) found.push({ view, place });
      }
    }
    return found;
  }

  const routesOf = (route: string | undefined): Promise<string[]> =>
    route === undefined ? link.run((redis) => redis.smembers(`${keys.base}routes`)) : Promise.resolve([route]);

  /** Seqs of events with a waiting delivery; null when there are too many. */
  async function fewWaiting(route: string | undefined): Promise<number[] | null> {
    const lists = (await routesOf(route)).flatMap((name) => waitingLists.map((list) => `${keys.base}${list}:${name}`));
    if (lists.length === 0) return [];
    const counts = await runPipeline(link, (commands) => {
      for (const list of lists) commands.zcard(list);
    });
    if ((counts as number[]).reduce((sum, count) => sum + count, 0) > mostWaiting) return null;
    // Atomic: deliveries move between these lists.
    const found = await runMulti(link, (commands) => {
      for (const list of lists) commands.zrange(list, "0", String(mostWaiting));
    });
    return (found as string[][]).flat().map(Number);
  }

  /** Seqs of events that may have matching deliveries, greatest first. */
  async function* candidates(filter: DeliveryFilter): AsyncGenerator<number[]> {
    const { route, state, cause, event, before, after = 0, limit } = filter;
    // The event of `before` may have more deliveries.
    const end = before === undefined ? Number.MAX_SAFE_INTEGER : before.event + 1;
    if (event !== undefined) {
      if (event > after && event < end) yield [event];
      return;
    }
    if (cause != null && (state === "waiting" || state === "dead")) {
      yield* newest((name) => keys.cause(name, state, cause));
      return;
    }
    const waiting = state === "waiting" ? await fewWaiting(route) : null;
    if (waiting !== null) {
      yield* inParts(descending(waiting.filter((seq) => seq > after && seq < end)), rowsAtOnce);
      return;
    }
    const index = state === undefined ? undefined : indexed[state];
    if (index === undefined) {
      yield* live.back(
        after,
        end,
        route === undefined && state === undefined && !isOfEvent(filter) ? Math.min(rowsAtOnce, limit) : rowsAtOnce,
      );
      return;
    }
    yield* newest((name) => `${keys.base}${index}:${name}`);

    /** Of lists by seq, one for each route. */
    async function* newest(listOf: (route: string) => string): AsyncGenerator<number[]> {
      const names = await routesOf(route);
      // Events that do not match need further ones.
      const most = isOfEvent(filter) ? Math.max(limit + 1, rowsAtOnce) : limit + 1;
      for (let below = end; ; ) {
        const found: number[] = [];
        /** Every list was read down to here. */
        let floor = after + 1;
        for (const name of names) {
          const key = listOf(name);
          const seqs = await link.run((redis) => redis.zrange(key, `(${below}`, `(${after}`, "BYSCORE", "REV", "LIMIT", 0, most));
          found.push(...seqs.map(Number));
          if (seqs.length === most) floor = Math.max(floor, Number(seqs.at(-1)));
        }
        yield* inParts(descending(found.filter((seq) => seq >= floor)), rowsAtOnce);
        if (floor === after + 1) return;
        below = floor;
      }
    }
  }

  /** The groups of a route, with the seqs of the oldest and newest event of those with a cause. */
  async function groupsOf(route: string): Promise<Group[]> {
    const lists = await link.run((redis) => redis.smembers(`${keys.base}causes:${route}`));
    // Atomic: deliveries move between these lists.
    const answers = await runMulti(link, (commands) => {
      for (const list of [...waitingLists, "held", "dead"]) commands.zcard(`${keys.base}${list}:${route}`);
      for (const list of lists) {
        const key = `${keys.base}cause:${route}:${list}`;
        commands.zcard(key).zrange(key, "0", "0").zrange(key, "-1", "-1");
      }
    });
    const [due, leased, exchanges, held, dead] = answers as number[];
    const failed = lists.map((list, index): Group => {
      const [count, oldest, newest] = answers.slice(5 + 3 * index) as [number, string[], string[]];
      const state = stateOf(list.slice(0, 1));
      return { route, state, cause: list.slice(2), count, oldest: numberOf(oldest[0]), newest: numberOf(newest[0]) };
    });
    const all = { waiting: (due ?? 0) + (leased ?? 0) + (exchanges ?? 0), held: held ?? 0, dead: dead ?? 0 };
    const others = (Object.keys(all) as (keyof typeof all)[]).map((state): Group => {
      const known = failed.filter((group) => group.state === state).reduce((sum, { count }) => sum + count, 0);
      return { route, state, cause: null, count: Math.max(0, all[state] - known), oldest: null, newest: null };
    });
    return [...failed, ...others].filter(({ count }) => count > 0);
  }

  /** Members of a sorted set, some at a time. One that moves meanwhile may be left out. */
  async function* membersOf(key: string): AsyncGenerator<number[]> {
    for (let first = 0; ; first += rowsAtOnce) {
      const seqs = await link.run((redis) => redis.zrange(key, String(first), String(first + rowsAtOnce - 1)));
      if (seqs.length > 0) yield seqs.map(Number);
      if (seqs.length < rowsAtOnce) return;
    }
  }

  /** The groups of a route whose events match. No list has them, so the open and dead deliveries are read. */
  async function matchingGroupsOf(route: string, filter: GroupFilter): Promise<Group[]> {
    const groups = new Map<string, Group>();
    const seen = new Set<number>();
    const wanted = (state: DeliveryState) => filter.state === undefined || filter.state === state;
    const lists = [...(wanted("waiting") ? waitingLists : []), ...(["held", "dead"] as const).filter(wanted)];
    for (const list of lists) {
      for await (const seqs of membersOf(`${keys.base}${list}:${route}`)) {
        // A delivery that moved between two lists was counted in the first.
        const rows = (await events.rows(seqs.filter((seq) => !seen.has(seq)))).filter((row) => matchesEvent(row, filter));
        for (const { view } of await deliveriesOf(rows, route)) {
          const { event, state, cause } = view;
          if (state === "delivered" || !wanted(state)) continue;
          seen.add(event);
          const key = `${state} ${cause}`;
          const { count, oldest, newest } = groups.get(key) ?? { count: 0, oldest: event, newest: event };
          const ends = { oldest: Math.min(oldest ?? event, event), newest: Math.max(newest ?? event, event) };
          groups.set(key, { route, state, cause, count: count + 1, ...ends });
        }
      }
    }
    return [...groups.values()];
  }

  async function ofEvent(seq: number): Promise<Placed[]> {
    const row = await events.row(seq);
    return row === null ? [] : deliveriesOf([row]);
  }

  return {
    /** Newest events first. */
    async list(filter: DeliveryFilter): Promise<DeliveryView[]> {
      const { route, state, cause, before, limit } = filter;
      const found: DeliveryView[] = [];
      for await (const seqs of candidates(filter)) {
        const rows = (await events.rows(seqs)).filter((row) => matchesEvent(row, filter));
        for (const { view, place } of await deliveriesOf(rows, route)) {
          if (state !== undefined && view.state !== state) continue;
          if (cause !== undefined && view.cause !== cause) continue;
          if (before !== undefined && view.event === before.event && place >= Number(before.route)) continue;
          found.push(view);
          if (found.length >= limit) return found;
        }
      }
      return found;
    },
    /** Position of a delivery in the list; the next page is before it. */
    async placeOf({ event, route }: { event: number; route: string }): Promise<DeliveryPlace> {
      const row = await events.row(event);
      const [verdicts = []] = row === null ? [] : await events.verdicts([row]);
      return { event, route: verdicts.findIndex(([name]) => name === route) + 1 };
    },
    async attempts({ event, route }: { event: number; route: string }): Promise<AttemptView[]> {
      const key = keys.delivery(event, route);
      const made = Number((await link.run((redis) => redis.hget(key, "a"))) ?? 0);
      if (made === 0) return [];
      const fields = Array.from({ length: made }, (_, index) => `a${index + 1}`);
      const kept = await link.run((redis) => redis.hmgetBuffer(key, ...fields));
      return kept.flatMap((attempt, index) => (attempt === null ? [] : [readAttempt(index + 1, attempt)]));
    },
    async groups(filter: GroupFilter): Promise<DeliveryGroupView[]> {
      const { route, state } = filter;
      const read = isOfEvent(filter) ? (name: string) => matchingGroupsOf(name, filter) : groupsOf;
      const found = (await Promise.all((await routesOf(route)).map(read)))
        .flat()
        .filter((group) => state === undefined || group.state === state);
      const seqs = [...new Set(found.flatMap(({ oldest, newest }) => [oldest, newest]).filter((seq) => seq !== null))];
      const received = new Map<number | null, number>();
      for (const some of inParts(seqs, rowsAtOnce)) {
        for (const { seq, receivedAt } of await events.rows(some)) received.set(seq, receivedAt);
      }
      return found.map(({ oldest, newest, ...group }) => ({
        ...group,
        oldestAt: received.get(oldest) ?? null,
        newestAt: received.get(newest) ?? null,
      }));
    },
    async counts(seqs: readonly number[]): Promise<Map<number, DeliveryCounts>> {
      const found = new Map<number, DeliveryCounts>();
      const rows: StoredEvent[] = [];
      for (const some of inParts(seqs, rowsAtOnce)) rows.push(...(await events.rows(some)));
      for (const some of inParts(await plannedOf(rows), mostCommands)) {
        const names = some.map(({ row, route }) => `${row.seq}:${route}`);
        const states = (await link.run((redis) => statesScript.run(redis, keys.of("seq"), [keys.base, ...names]))) as string[];
        for (const [index, { row }] of some.entries()) {
          const [code = "", cause = null] = states[index]?.split(" ") ?? [];
          if (code !== "") found.set(row.seq, addDeliveries(found.get(row.seq) ?? noDeliveries, stateOf(code), 1, cause));
        }
      }
      return found;
    },
    /** Finds a delivery by its id. */
    async find(id: string): Promise<DeliveryView | null> {
      const parsed = parseDeliveryId(id);
      const masked = parseMaskedDelivery(id);
      const tag = parsed?.routeTag ?? masked?.routeTag;
      const mask = parseMask("event", masked?.event ?? "");
      for (const seq of mask === null ? await events.seqsOf(parsed?.eventId ?? "") : await events.seqsOfMask(mask)) {
        const row = await events.row(seq);
        if (row === null) continue;
        const found = (await ofEvent(seq)).find(({ view }) => routeTag(row.account, view.route) === tag);
        if (found !== undefined) return found.view;
      }
      return null;
    },
  } satisfies DeliveryReading;
}

/** Greatest first, without duplicates. */
const descending = (seqs: readonly number[]): number[] => [...new Set(seqs)].sort((a, b) => b - a);

function* inParts<T>(list: readonly T[], size: number): Generator<T[]> {
  for (let from = 0; from < list.length; from += size) yield list.slice(from, from + size);
}

const isOfEvent = ({ errorCode, from, to }: OfEvent): boolean => errorCode !== undefined || from !== undefined || to !== undefined;

function matchesEvent({ errorCode: code, receivedAt }: StoredEvent, { errorCode, from, to }: OfEvent): boolean {
  if (errorCode !== undefined && code !== errorCode) return false;
  return (from === undefined || receivedAt >= from) && (to === undefined || receivedAt < to);
}

const numberOf = (text: string | null | undefined): number | null => (text === null || text === undefined ? null : Number(text));

function viewOf({ seq, account, id }: StoredEvent, route: string, fields: readonly (string | null)[]): DeliveryView | null {
  const [state = null, attempts, replays, nextAt, settledAt, reason = null, cause = null] = fields;
  if (state === null || id === null) return null;
  const eventId = id as EventId;
  return {
    id: deliveryId(account, eventId, route),
    event: seq,
    eventId,
    route,
    state: stateOf(state),
    attempts: numberOf(attempts) ?? 0,
    replays: numberOf(replays) ?? 0,
    nextAt: numberOf(nextAt),
    settledAt: numberOf(settledAt),
    reason,
    cause,
  };
}
