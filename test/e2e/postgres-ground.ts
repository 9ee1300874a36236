import { expect } from "vitest";
import { settledState } from "../../src/store/schema/tables.ts";
import { auditOf } from "../harness/ask-relay.ts";
import {
  type FlakyArrival,
  type FlakyDownstream,
  openFlakyDownstream,
  type Treatment,
} from "../harness/flaky-downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { openSession, type Session } from "../harness/postgres-session.ts";
import { createMessages } from "../harness/posts.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { runHere } from "../harness/run-here.ts";
import { soakSize } from "../harness/soak.ts";
import { until } from "../harness/until.ts";
import { testSeed as seed } from "../setup/seed.ts";
import {
  arrivedAt,
  compareStates,
  findSetbacks,
  type SubjectRow,
  type TrackedEvent,
} from "./crash-checks.ts";
import { type Load, startLoad } from "./scale-load.ts";
import { type Killable, startProcesses } from "./scale-processes.ts";

/**
 * Receivers and workers on one database under load, with a record of their leases that they do not
 * write.
 */
export interface Ground {
  readonly receivers: readonly Killable[];
  readonly workers: readonly Killable[];
  readonly processes: readonly Killable[];
  readonly downstream: FlakyDownstream;
  readonly load: Load;
  /**
   * Resolves after so many more answers: the load is on, also on a slow machine. Not given: those
   * of a second.
   */
  answered(more?: number): Promise<void>;
  /** Resolves at the next answer: events are accepted again. */
  acceptedAgain(): Promise<void>;
  /** The workers that hold routes, by route. */
  holders(): Promise<ReadonlyMap<string, string>>;
  /**
   * Ends the load, waits for all deliveries, and compares what is stored with what the sender and
   * the downstream saw.
   */
  expectAccounted(excused?: Excused): Promise<void>;
}

export interface Excused {
  /**
   * Workers that were frozen: each may have been about to write the bytes of an attempt, which then
   * leave when it goes on.
   */
  readonly late?: readonly string[];
  /**
   * The server lost the last commits before this time in unix ms, and with them the events of these
   * ids at most.
   */
  readonly lost?: { readonly before: number; readonly ids: ReadonlySet<string> };
}

const postsPerSecond = soakSize(40, 100);

/**
 * Some deliveries fail, some are cut off at first, some are slow; some of `/dying` are never taken.
 * None hangs: a timeout ends the order of arrivals.
 */
function treat(path: string, attempt: number, share: number): Treatment {
  if (path === "/dying") return { status: share < 0.3 ? 500 : 200 };
  if (share < 0.01 && attempt === 1) return "reset";
  if (share < 0.05 && attempt <= 2) return { status: 500 };
  if (share > 0.95) return { status: 200, afterMs: 100 + share * 200 };
  return { status: 200 };
}

function settingsFor(url: string, downstream: FlakyDownstream) {
  const to = { concurrency: 16, timeout: "60s", headers: { "x-sent-by": "${PROCESS}" } };
  return {
    storage: { driver: "postgres", url },
    log: { level: "warn" },
    // Never too late to register: what is parked must come out.
    tracking: { unknown: "park", parkFor: "1h" },
    routes: [
      routeTo(`${downstream.url}/ordered`, { name: "ordered", to }),
      routeTo(`${downstream.url}/any`, { name: "any", to: { ...to, order: "none" } }),
      routeTo(`${downstream.url}/tracked`, { name: "tracked", match: { tracked: true }, to }),
      routeTo(`${downstream.url}/dying`, {
        name: "dying",
        match: { statuses: ["failed", "read"] },
        to: { ...to, retry: { schedule: ["0s", "100ms", "200ms"], jitter: 0 } },
      }),
    ],
  };
}

/** Starts two receivers, two workers and load on an empty database. */
export async function startGround(url: string): Promise<Ground> {
  const downstream = await openFlakyDownstream(treat);
  const processes = await startProcesses(2, 2, settingsFor(url, downstream));
  await recordLeases(url);
  const receiving = processes.filter(({ role }) => role === "receive");
  const load = startLoad(
    receiving.map(({ relay }) => relay),
    String(seed),
    postsPerSecond,
  );

  return {
    receivers: receiving,
    workers: processes.filter(({ role }) => role === "work"),
    processes,
    downstream,
    load,
    async answered(more = postsPerSecond) {
      const wanted = load.answered() + more;
      await until("the load is on", () => load.answered() >= wanted);
    },
    async acceptedAgain() {
      const since = Date.now();
      await until("events are accepted again", () => load.lastAnswerAt() > since);
    },
    async holders() {
      await using session = await openSession(url);
      const names = namesOf(await session.rows<Presence>(presences), processes);
      const held = await session.rows<{ route: string; holder: string }>(
        `SELECT substr(key, 7) AS route, value::json ->> 'holder' AS holder FROM relay.state WHERE key LIKE 'lease/%'`,
      );
      return new Map(
        held.flatMap(({ route, holder }) =>
          names.has(holder) ? [[route, names.get(holder) as string] as const] : [],
        ),
      );
    },
    async expectAccounted({ late = [], lost = { before: 0, ids: new Set<string>() } } = {}) {
      await until("enough was accepted", () => load.accepted.size > 100);
      await load.stop();
      await using session = await openSession(url);
      await until(
        "all is delivered",
        async () =>
          (await session.number("SELECT count(*) FROM relay.queue WHERE state <> 2")) === 0,
      );
      const seqOf = await expectStored(session, load, lost.ids);
      await expectDelivered(session, downstream, seqOf, lost.ids.size > 0);
      const since = downstream.arrivals.filter(({ at }) => at >= lost.before);
      const unleased = await findUnleased(session, since, processes);
      const leased = since.filter((arrival) => !unleased.some((one) => one.arrival === arrival));
      for (const name of late) {
        const at = unleased.findIndex(({ arrival }) => arrival.sentBy === name);
        if (at !== -1) unleased.splice(at, 1);
      }
      expect(unleased.map(({ why }) => why)).toEqual([]);
      for (const route of ["ordered", "tracked", "dying"])
        expect(findSetbacks(leased, `/${route}`, seqOf)).toEqual([]);
      await expectAlive(processes, downstream);
    },
  };
}

const missing = (wanted: Iterable<string>, found: { has(id: string): boolean }) =>
  [...wanted].filter((id) => !found.has(id));

/**
 * What got a 2xx is stored once, and messages have the states of their events. Returns the seq of
 * each event by id.
 */
async function expectStored(
  session: Session,
  load: Load,
  lost: ReadonlySet<string>,
): Promise<Map<string, number>> {
  const events = await session.rows<{ seq: number; id: string }>(
    "SELECT seq::float8 AS seq, encode(id, 'hex')::uuid::text AS id FROM relay.events WHERE id IS NOT NULL",
  );
  const seqOf = new Map(events.map(({ id, seq }) => [id, seq]));
  expect(seqOf.size, "an id is stored twice").toBe(events.length);
  expect(
    missing(load.accepted.keys(), seqOf).filter((id) => !lost.has(id)),
    "acknowledged and lost",
  ).toEqual([]);
  expect([...load.accepted].filter(([id, times]) => times > 1 && !lost.has(id))).toEqual([]);

  const registered = await session.rows<{ name: string }>(
    "SELECT name FROM relay.subjects WHERE type = 0 AND registered_at IS NOT NULL",
  );
  expect(load.registered.size).toBeGreaterThan(0);
  if (lost.size === 0) {
    const unregistered = missing(load.registered, new Set(registered.map(({ name }) => name)));
    expect(unregistered, "registration acknowledged and lost").toEqual([]);
    expect(
      await session.number("SELECT count(*) FROM relay.events WHERE id IS NULL"),
    ).toBeGreaterThanOrEqual(load.quarantined());
  }
  const tracked = await session.rows<TrackedEvent>(
    `SELECT subject::float8 AS subject, status, error_code, created_at::float8 AS created_at,
       convert_from(body, 'UTF8')::json #>> '{data,error}' AS error, moved
     FROM relay.events WHERE subject IS NOT NULL ORDER BY seq`,
  );
  const subjects = await session.rows<SubjectRow>(
    "SELECT seq::float8 AS seq, type, status, error, times FROM relay.subjects",
  );
  expect(compareStates(tracked, subjects)).toEqual([]);

  const counted = await session.number(
    "SELECT sum(n) FROM relay.counters WHERE at = 0 AND series = 'secret'",
  );
  expect(counted, "events as counted").toBe(
    await session.number("SELECT count(*) FROM relay.events WHERE secret IS NOT NULL"),
  );
  return seqOf;
}

/**
 * Each event has one delivery for each route that wants it, which ended as the downstream answered.
 */
async function expectDelivered(
  session: Session,
  { arrivals }: FlakyDownstream,
  seqOf: ReadonlyMap<string, number>,
  isLossy: boolean,
): Promise<void> {
  const idOf = new Map([...seqOf].map(([id, seq]) => [seq, id]));
  const deliveries = await session.rows<{ event: number; route: string; state: number }>(
    "SELECT event::float8 AS event, route, state FROM relay.deliveries",
  );
  const parked = await session.rows<{ event: number; route: string; state: number }>(
    "SELECT event::float8 AS event, route, state FROM relay.queue",
  );
  const known =
    "SELECT e.seq::float8 AS seq FROM relay.events e LEFT JOIN relay.subjects s ON s.seq = e.subject WHERE e.id IS NOT NULL";
  const wanted = {
    ordered: known,
    any: known,
    tracked: `${known} AND s.registered_at IS NOT NULL`,
    dying: `${known} AND e.status IN ('failed', 'read')`,
  };
  const taken = new Set(
    arrivals
      .filter(({ answered }) => answered === 200)
      .map(({ path, eventId }) => `${path} ${eventId}`),
  );
  for (const [route, query] of Object.entries(wanted)) {
    const ids = (await session.rows<{ seq: number }>(query))
      .map(({ seq }) => idOf.get(seq) as string)
      .sort();
    const planned = deliveries.filter((one) => one.route === route);
    expect(
      planned.map(({ event }) => idOf.get(event) ?? event).sort(),
      `deliveries of ${route}`,
    ).toEqual(ids);
    // With a registration that was lost, an event has arrived that its route did not want.
    const arrived = [...arrivedAt(arrivals, `/${route}`)].filter(
      (id) => !isLossy || ids.includes(id),
    );
    expect(arrived.sort(), `arrived at ${route}`).toEqual(ids);
    const wrong = planned.filter(({ event, state }) => {
      const isTaken = taken.has(`/${route} ${idOf.get(event)}`);
      return isTaken
        ? state !== settledState.delivered
        : state !== settledState.dead || route !== "dying";
    });
    expect(wrong, "another state than the downstream's answers make").toEqual([]);
  }
  expect(deliveries.filter(({ route }) => !(route in wanted))).toEqual([]);
  const registered = new Set(
    (await session.rows<{ seq: number }>(wanted.tracked)).map(({ seq }) => seq),
  );
  expect(parked.filter(({ event, route }) => route !== "tracked" || registered.has(event))).toEqual(
    [],
  );
}

/** The audit balances, a new event comes out at once, and all processes end in order. */
async function expectAlive(
  processes: readonly Killable[],
  downstream: FlakyDownstream,
): Promise<void> {
  await Promise.all(processes.map((one) => one.ready()));
  const receiver = (processes.findLast(({ role }) => role === "receive") as Killable).relay;
  expect(await auditOf(receiver)).toMatchObject({ balanced: true });
  // On a busy machine PostgreSQL may not answer for some seconds, which ends a command.
  const said = await until("PostgreSQL answers a command", async () => {
    const ran = await runHere(["audit", "--config", receiver.settingsPath], { PROCESS: "test" });
    return ran.err.includes("PostgreSQL cannot be used now") ? null : ran;
  });
  expect(said, said.out + said.err).toMatchObject({ code: 0 });
  const event = createMessages(`${seed} after`).event();
  expect((await postEvent(receiver.webhookUrl, event)).word).toBe("accepted");
  await until(
    "the new event is delivered",
    () => downstream.arrivals.filter(({ eventId }) => eventId === event.id).length >= 2,
  );
  expect(await Promise.all(processes.map(({ relay }) => relay.stop()))).toEqual(
    processes.map(() => ({ code: 0, signal: null })),
  );
}

interface Presence {
  readonly holder: string;
  readonly pid: number;
}

const presences = `SELECT DISTINCT substr(key, 9) AS holder, (value::json ->> 'pid')::int AS pid FROM ground.changes WHERE key LIKE 'process/%'`;

/**
 * Every change of a lease or of a process's presence, with its time, by a trigger in a schema of
 * its own.
 */
async function recordLeases(url: string): Promise<void> {
  await using session = await openSession(url);
  await session.rows(`
    CREATE SCHEMA ground;
    CREATE TABLE ground.changes (n bigint GENERATED ALWAYS AS IDENTITY, at float8, key text, value text);
    CREATE FUNCTION ground.note() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO ground.changes (at, key, value) VALUES (extract(epoch FROM clock_timestamp()) * 1000, NEW.key, NEW.value);
        RETURN NULL;
      END $$;
    BEGIN;
    LOCK TABLE relay.state IN SHARE MODE;
    INSERT INTO ground.changes (at, key, value) SELECT 0, key, value FROM relay.state WHERE key LIKE 'lease/%' OR key LIKE 'process/%';
    CREATE TRIGGER note AFTER INSERT OR UPDATE ON relay.state FOR EACH ROW
      WHEN (NEW.key LIKE 'lease/%' OR NEW.key LIKE 'process/%') EXECUTE FUNCTION ground.note();
    COMMIT`);
}

function namesOf(found: readonly Presence[], processes: readonly Killable[]): Map<string, string> {
  const names = found.map(
    ({ holder, pid }) => [holder, processes.find(({ pids }) => pids.has(pid))?.name] as const,
  );
  return new Map(names.filter((one): one is [string, string] => one[1] !== undefined));
}

/** Arrivals from a worker that did not hold the lease of the route then. */
async function findUnleased(
  session: Session,
  arrivals: readonly FlakyArrival[],
  processes: readonly Killable[],
) {
  const names = namesOf(await session.rows<Presence>(presences), processes);
  const changes = await session.rows<{ at: number; route: string; holder: string }>(
    `SELECT at, substr(key, 7) AS route, value::json ->> 'holder' AS holder FROM ground.changes WHERE key LIKE 'lease/%' ORDER BY n`,
  );
  const byRoute = Map.groupBy(changes, ({ route }) => route);
  return arrivals.flatMap((arrival) => {
    const { path, at, sentBy, number } = arrival;
    // `Date.now` rounds down.
    const lease = byRoute.get(path.slice(1))?.findLast((change) => change.at < at + 1);
    const name = names.get(lease?.holder ?? "") ?? "nobody";
    if (name === sentBy) return [];
    return [
      {
        arrival,
        why: `${path}: arrival ${number} is from ${sentBy}, and ${name} had held the route for ${at - (lease?.at ?? 0)} ms`,
      },
    ];
  });
}
