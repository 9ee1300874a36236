import { Redis } from "ioredis";
import { type MessageState, type RunState, type TrackedState, unobserved } from "../../src/model/tracking.ts";
import type { Arrival } from "../../src/sandbox/downstream/arrivals.ts";
import { type EventRow, readAttempt, readEventRow } from "../../src/store/redis/event-rows.ts";
import { readSubjectRow, rowJson, type StoredSubject, stateOf } from "../../src/store/redis/rows.ts";
import { stepMessage, stepRun } from "../../src/track/states.ts";

export interface StoredDelivery {
  readonly seq: number;
  readonly route: string;
  /** Digit of the state: 2 is delivered, 3 dead. */
  readonly state: string;
  readonly attempts: number;
  /** True when an attempt had no answer in its time: the destination may take it for as long as it likes. */
  readonly wasUnanswered: boolean;
}

/** All that stands in a relay's Redis, read from the keys themselves and not by the relay's own readers. */
export interface Census {
  /** By seq. */
  readonly events: readonly (EventRow & { readonly seq: number })[];
  readonly deliveries: readonly StoredDelivery[];
  /** Messages and runs by name. */
  readonly subjects: ReadonlyMap<string, StoredSubject>;
  /** Names of lists that only open deliveries stand in, or events that are yet to be planned. */
  readonly openLists: readonly string[];
}

export async function takeCensus(url: string, prefix = "relay"): Promise<Census> {
  const redis = new Redis(url);
  try {
    const base = `{${prefix}}:`;
    const names = new Set<string>();
    for await (const found of redis.scanStream({ match: `${base.replace(/[{}]/g, "\\$&")}*`, count: 1000 })) {
      for (const key of found as string[]) names.add(key.slice(base.length));
    }
    const of = (start: RegExp) => [...names].filter((name) => start.test(name));
    const rows = async (keys: string[]) => (keys.length === 0 ? [] : await redis.mget(...keys.map((key) => base + key)));
    const eventNames = of(/^e:\d+$/);
    const events = (await rows(eventNames)).map((row, n) => ({
      seq: Number((eventNames[n] as string).slice(2)),
      // A small body stands in the row, after it.
      ...readEventRow(rowJson(row as string).split("\n", 1)[0] as string),
    }));
    const subjectNames = of(/^[mr]:/);
    const subjectRows = await rows(subjectNames);
    const deliveryNames = of(/^d:/);
    const pipeline = redis.pipeline();
    for (const name of deliveryNames) pipeline.hgetall(base + name);
    const answers = (await pipeline.exec()) ?? [];
    return {
      events: events.sort((a, b) => a.seq - b.seq),
      deliveries: deliveryNames.map((name, n) => {
        const [, seq, ...route] = name.split(":");
        const kept = (answers[n] as [unknown, Record<string, string>])[1];
        const attempts = Number(kept["a"] ?? 0);
        const attemptHistory = Array.from({ length: attempts }, (_, at) => readAttempt(at + 1, Buffer.from(kept[`a${at + 1}`] as string)));
        return {
          seq: Number(seq),
          route: route.join(":"),
          state: kept["s"] ?? "none",
          attempts,
          wasUnanswered: attemptHistory.some(({ error }) => error !== null),
        };
      }),
      subjects: new Map(subjectNames.map((name, n) => [name, readSubjectRow(rowJson(subjectRows[n] as string))])),
      openLists: of(/^((due|leased|held|px|o|oh):|unplanned$)/),
    };
  } finally {
    redis.disconnect();
  }
}

/** Compares each message and run with the state machine applied to the stored events in the order of seq; gives what differs. */
export function findWrongSubjects({ events, subjects }: Census): string[] {
  const states = new Map<string, TrackedState<string>>();
  for (const { subject, status, errorCode, createdAt } of events) {
    if (subject === null) continue;
    const seen = { status, error: errorCode, at: createdAt as number };
    const known = states.get(subject) ?? unobserved;
    const { state } = subject.startsWith("m:")
      ? stepMessage(known as MessageState, seen)
      : stepRun(known as RunState, { ...seen, error: null });
    states.set(subject, state);
  }
  return [...states].flatMap(([name, wanted]) => {
    const row = subjects.get(name);
    if (row === undefined) return [`${name} is missing`];
    // An event's row does not have the text of a run's error.
    const found = name.startsWith("m:") ? stateOf(row) : { ...stateOf(row), error: null };
    return sameState(found, wanted) ? [] : [`${name} is ${JSON.stringify(found)}, not ${JSON.stringify(wanted)}`];
  });
}

function sameState(a: object, b: object): boolean {
  const sorted = (value: object) =>
    JSON.stringify(
      Object.entries(value)
        .map(([key, one]) => [key, typeof one === "object" && one !== null ? Object.entries(one).sort() : one])
        .sort(),
    );
  return sorted(a) === sorted(b);
}

/**
 * Where deliveries of one message reached a route's path in another order than their events were accepted. The first arrival
 * of each comes after those of all before it; a later one may come at any time only where an attempt ended without an
 * answer: what was sent then may lie unread at a destination that is busy.
 */
export function findDisorder(
  { deliveries }: Census,
  arrivals: readonly Arrival[],
  route: string,
  seqOf: ReadonlyMap<string, number>,
): string[] {
  const unanswered = new Set(deliveries.filter((one) => one.route === route && one.wasUnanswered).map(({ seq }) => seq));
  const furthest = new Map<string, number>();
  return arrivals.flatMap(({ path, wamid, eventId, number, attempt }) => {
    const seq = seqOf.get(eventId ?? "");
    if (path !== `/${route}` || wamid === null || seq === undefined) return [];
    const before = furthest.get(wamid) ?? 0;
    furthest.set(wamid, Math.max(before, seq));
    if (before <= seq || (attempt > 1 && unanswered.has(seq))) return [];
    return [`${path}: arrival ${number} is event ${seq}, for the ${attempt}. time, and ${before} of the same message had come`];
  });
}
