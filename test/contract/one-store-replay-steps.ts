import fc from "fast-check";
import type { ReceivedEvent } from "../../src/model/event.ts";
import type { ReleasedEvent } from "../../src/store/port.ts";
import type { DueDelivery, Rules } from "../../src/store/rules.ts";
import { attempts, deliveries, queue, queueState, settledState } from "../../src/store/schema/tables.ts";
import type { SqliteStore } from "../../src/store/sqlite/open.ts";
import { findBackfill } from "../../src/store/work/backfill.ts";
import { findReplay, type ReplayStep, startOfReplay } from "../../src/store/work/find-replay.ts";
import type { OneStore } from "./one-store.ts";

/** Random steps of quarantine, release, retry, replay and backfill, on the old engine and on the new store. */
export type ReplayAction =
  | { readonly kind: "quarantine"; readonly event: ReceivedEvent }
  | { readonly kind: "release"; readonly drawn: number }
  | { readonly kind: "retry"; readonly drawn: number }
  | { readonly kind: "replay"; readonly states: States; readonly cause: string | null | undefined; readonly route: string | undefined }
  | { readonly kind: "backfill"; readonly route: string | undefined };

type States = readonly ("dead" | "delivered")[] | readonly ["waiting"];

/** All but `quarantine`, whose event has the time of its step. */
export function replayActions(routes: readonly string[]): fc.Arbitrary<Exclude<ReplayAction, { readonly kind: "quarantine" }>> {
  const route = fc.constantFrom(undefined, undefined, ...routes);
  return fc.oneof(
    fc.record({ kind: fc.constant("release" as const), drawn: fc.nat() }),
    fc.record({ kind: fc.constant("retry" as const), drawn: fc.nat() }),
    fc.record({
      kind: fc.constant("replay" as const),
      states: fc.constantFrom<States>(["dead"], ["delivered"], ["dead", "delivered"], ["waiting"], ["waiting"]),
      cause: fc.constantFrom(undefined, undefined, "503", null),
      route,
    }),
    fc.record({ kind: fc.constant("backfill" as const), route }),
    fc.constant({ kind: "backfill" as const, route: undefined }),
  );
}

const plain = ({ route, event, at }: DueDelivery): DueDelivery => ({ route, event, at });
const byDelivery = (a: { event: number; route: string }, b: { event: number; route: string }) =>
  a.event - b.event || (a.route < b.route ? -1 : 1);

interface Walked {
  readonly replayed: number;
  readonly due: readonly DueDelivery[];
}

/** A walk with all its steps. The engines walk in different orders. */
async function walk<Place>(
  from: Place,
  look: (place: Place) => Promise<{ readonly found: ReplayStep["found"]; readonly place: Place | null }>,
  send: (found: ReplayStep["found"]) => Promise<Walked | undefined>,
): Promise<Walked> {
  const due: DueDelivery[] = [];
  let replayed = 0;
  for (let place: Place | null = from; place !== null; ) {
    const step: { readonly found: ReplayStep["found"]; readonly place: Place | null } = await look(place);
    const done = await send(step.found);
    replayed += done?.replayed ?? 0;
    due.push(...(done?.due ?? []));
    place = step.place;
  }
  return { replayed, due: due.map(plain).sort(byDelivery) };
}

const seqsOf = (found: ReplayStep["found"]): number[] => [...new Set(found.map(({ event }) => event))];

interface Engine {
  quarantine(body: Parameters<SqliteStore["quarantine"]>[0]): Promise<number | undefined>;
  release(event: ReleasedEvent): Promise<unknown>;
  retry(event: number, route: string, at: number): Promise<unknown>;
  replay(filter: Parameters<SqliteStore["findReplay"]>[0], at: number): Promise<Walked>;
  backfill(filter: Parameters<SqliteStore["findBackfill"]>[0], at: number): Promise<Walked>;
}

const oldEngine = (old: SqliteStore): Engine => ({
  quarantine: old.quarantine,
  release: old.release,
  retry: old.retry,
  replay: (filter, at) =>
    walk(
      { since: at, event: 0, route: 0 },
      async (from) => {
        const { found, cursor } = old.findReplay(filter, from, at, 3);
        return { found, place: cursor === null ? null : { ...cursor, route: Number(cursor.route) } };
      },
      (found) => old.replay(found, filter.states, at),
    ),
  backfill: (filter, at) =>
    walk(
      { since: at, event: 0, route: 0 },
      async (from) => {
        const { found, cursor } = old.findBackfill(filter, from, 3);
        return { found, place: cursor === null ? null : { ...cursor, route: Number(cursor.route) } };
      },
      (found) => old.backfill(seqsOf(found), filter, at),
    ),
});

const newEngine = (store: OneStore, rules: Rules): Engine => ({
  quarantine: async (body) => (await store.send(({ quarantine }) => quarantine, [body]))[0],
  async release(event) {
    const [outcome = null] = await store.send(({ release }) => release, [event]);
    return outcome?.result === "accepted" ? { ...outcome, due: outcome.due.map(plain) } : outcome;
  },
  async retry(event, route, at) {
    const [outcome = null] = await store.send(({ retry }) => retry, [{ event, route, at }]);
    return outcome === null ? null : { ...outcome, due: outcome.due === null ? null : plain(outcome.due) };
  },
  replay: (filter, at) =>
    walk(
      startOfReplay(at),
      (place) => store.read(findReplay(filter, place, at, 3)),
      async (found) => (await store.send(({ replay }) => replay, [{ found, states: filter.states, at }]))[0],
    ),
  backfill: (filter, at) =>
    walk(
      startOfReplay(at),
      (place) => store.read(findBackfill(filter, place, 3, rules)),
      async (found) => (await store.send(({ backfill }) => backfill, [{ events: seqsOf(found), filter, at }]))[0],
    ),
});

/** Runs actions on the engines, the old one first. Returns what each answers. */
export function createReplaySteps(old: SqliteStore, stores: readonly OneStore[], rules: Rules) {
  const engines = [oldEngine(old), ...stores.map((store) => newEngine(store, rules))];
  const bodies: ReleasedEvent[] = [];
  return async (action: ReplayAction, now: number): Promise<unknown[]> => {
    const onEach = <T>(ask: (engine: Engine) => Promise<T>) => Promise.all(engines.map(ask));
    switch (action.kind) {
      case "quarantine": {
        const { envelope, subject, ...received } = action.event;
        const seqs = await onEach((engine) => engine.quarantine({ ...received, error: "not understood" }));
        bodies.push({ ...action.event, secret: null, releaseOf: seqs[0] ?? 0 });
        return seqs;
      }
      case "release": {
        const body = bodies[action.drawn % Math.max(1, bodies.length)];
        return body === undefined ? [] : onEach((engine) => engine.release({ ...body, receivedAt: now }));
      }
      case "retry": {
        const all = old.read.deliveries.list({ limit: 10_000 });
        const { event, route } = all[action.drawn % Math.max(1, all.length)] ?? { event: 1, route: "nowhere" };
        return onEach((engine) => engine.retry(event, route, now));
      }
      case "replay":
        return onEach((engine) => engine.replay(action, now));
      case "backfill":
        return onEach((engine) => engine.backfill({ disposition: "filtered", route: action.route }, now));
    }
  };
}

/** All deliveries, as both engines can say it. */
export async function deliveriesOf(store: OneStore) {
  const tries = await store.rows(attempts);
  const open = (await store.rows(queue))
    .filter(({ state }) => state === queueState.waiting || state === queueState.held)
    .map((row) => ({ ...row, word: row.state === queueState.held ? "held" : "waiting", last: 0 }));
  const settled = (await store.rows(deliveries)).map((row) => ({
    ...row,
    word: row.state === settledState.dead ? "dead" : "delivered",
    last: row.at === null ? 0 : 1,
  }));
  return [...open, ...settled]
    .map(({ event, route, word: state, attempts, replays, cause, last }) => {
      const before = tries.filter((each) => each.event === event && each.route === route).length;
      return { event, route, state, attempts, replays, cause, tries: before + last };
    })
    .sort(byDelivery);
}

export const deliveriesOfOld = (old: SqliteStore) =>
  old.read.deliveries
    .list({ limit: 10_000 })
    .map((delivery) => {
      const { event, route, state, attempts, replays, cause } = delivery;
      return { event, route, state, attempts, replays, cause, tries: old.read.deliveries.attempts(delivery).length };
    })
    .sort(byDelivery);
