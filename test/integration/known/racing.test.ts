import fc from "fast-check";
import { expect, test } from "vitest";
import type { Wamid } from "../../../src/model/ids.ts";
import { dispositions } from "../../../src/model/plan.ts";
import type { MessageStatus } from "../../../src/model/statuses.ts";
import type { SandboxEvent } from "../../../src/sandbox/events/event-maker.ts";
import { rowsOf } from "../../harness/store-rows.ts";
import { until } from "../../harness/until.ts";
import { type KnownRelay, openRelay, paths } from "./open-relay.ts";

const parkForMs = 60_000;
/** How late the relay may end what was parked too long. */
const expireMs = 500;
const statuses = ["sent", "delivered", "read", "failed"] as const satisfies readonly MessageStatus[];

/**
 * A message's life: statuses by phase, each phase's posted one after the other; the phase that registers it, if any, and
 * after how many posts of that phase the registration leaves, without being waited for.
 */
interface Life {
  readonly phases: readonly (readonly { readonly status: (typeof statuses)[number]; readonly twice: boolean }[])[];
  readonly registered: { readonly phase: number; readonly afterPosts: number; readonly again: boolean } | null;
}

/** Between phases so much time passes. */
const pauses = [1, 1_000, 29_000, 45_000, parkForMs + expireMs];
const phaseCount = 3;

const post = fc.record({ status: fc.constantFrom(...statuses), twice: fc.boolean() });
const life: fc.Arbitrary<Life> = fc.record({
  phases: fc.array(fc.array(post, { maxLength: 3 }), { minLength: phaseCount, maxLength: phaseCount }),
  registered: fc.option(fc.record({ phase: fc.nat({ max: phaseCount - 1 }), afterPosts: fc.nat({ max: 3 }), again: fc.boolean() }), {
    freq: 5,
  }),
});
const plot = fc.record({
  lives: fc.array(life, { minLength: 20, maxLength: 30 }),
  pauses: fc.tuple(fc.constantFrom(...pauses), fc.constantFrom(...pauses)),
  /** Registrations of a phase leave together, as lines of one stream. */
  asLines: fc.boolean(),
});

/** What became of one message: its events with the time at which each was accepted, and when it was registered. */
interface Told {
  readonly wamid: Wamid;
  readonly events: { readonly event: SandboxEvent; readonly status: MessageStatus; readonly at: number }[];
  registeredAt: number | null;
}

async function postLife(relay: KnownRelay, told: Told, posts: Life["phases"][number], before: (posted: number) => void): Promise<void> {
  for (const [posted, { status, twice }] of posts.entries()) {
    before(posted);
    const event = relay.event(told.wamid, status);
    const answers = await Promise.all(twice ? [relay.post(event), relay.post(event)] : [relay.post(event)]);
    expect(answers.toSorted()).toEqual(twice ? ["accepted", "duplicate"] : ["accepted"]);
    told.events.push({ event, status, at: relay.clock.now() });
  }
  before(posts.length);
}

async function playPhase(relay: KnownRelay, lives: readonly Life[], told: readonly Told[], phase: number, asLines: boolean): Promise<void> {
  const registering: Promise<unknown>[] = [];
  const registrationOf = ({ wamid }: Told) => ({ account: "main", wamid, reference: `order of ${wamid}` });
  const register = (one: Told, again: boolean): void => {
    one.registeredAt ??= relay.clock.now();
    for (let times = again ? 2 : 1; times > 0; times--) registering.push(relay.track(registrationOf(one)));
  };
  const posting = lives.map((life, index) => {
    const one = told[index] as Told;
    const isNow = life.registered?.phase === phase;
    return postLife(relay, one, life.phases[phase] ?? [], (posted) => {
      if (!isNow || asLines || life.registered === null) return;
      const at = Math.min(life.registered.afterPosts, life.phases[phase]?.length ?? 0);
      if (posted === at) register(one, life.registered.again);
    });
  });
  if (asLines) {
    const now = told.filter((_, index) => lives[index]?.registered?.phase === phase);
    for (const one of now) one.registeredAt = relay.clock.now();
    if (now.length > 0) registering.push(relay.trackLines(now.map(registrationOf)));
  }
  await Promise.all([...posting, ...registering.splice(0)]);
  await Promise.all(registering);
}

/** Whether an event must reach the routes of tracked messages; null: both are right. */
function mustArrive({ registeredAt }: Told, at: number): boolean | null {
  if (registeredAt === null) return false;
  if (registeredAt - at < parkForMs) return true;
  return registeredAt - at < parkForMs + expireMs ? null : false;
}

/** The events that moved the status, by DESIGN.md's promise 4, told apart from the relay's own state machine. */
function movesOf({ events }: Told): Set<string> {
  const rank: Record<string, number> = { sent: 1, delivered: 2, read: 3 };
  const moves = new Set<string>();
  let now: string | null = null;
  for (const { event, status } of events) {
    const isMove: boolean =
      now === null ||
      (status === "failed" ? now === "sent" : now === "failed" ? status !== "sent" : (rank[status] ?? 0) > (rank[now] ?? 0));
    if (!isMove) continue;
    moves.add(event.id);
    now = status;
  }
  return moves;
}

test("registrations that race events: each event settles once, and each route gets its deliveries once, in order", async () => {
  const relay = await openRelay({ routes: ["reads", "events", "transitions"] });
  const sums = { released: 0, ignored: 0, direct: 0 };
  const words = { routed: 0, ignored: 0 };
  await fc.assert(
    fc.asyncProperty(plot, async ({ lives, pauses: waits, asLines }) => {
      const told = lives.map((): Told => ({ wamid: relay.wamid(), events: [], registeredAt: null }));
      for (let phase = 0; phase < phaseCount; phase++) {
        await playPhase(relay, lives, told, phase, asLines);
        await relay.clock.advance(waits[phase] ?? 0);
      }
      // What nobody registered is over.
      await relay.clock.advance(parkForMs + expireMs);
      await until("nothing waits", async () => rowsOf(relay.storePath, "SELECT 1 FROM queue WHERE state <> 2").length === 0);

      for (const one of told) {
        const at = (path: string) => relay.arrivals(path, one.wamid).map(({ eventId }) => eventId);
        expect(at(paths.reads)).toEqual(one.events.filter(({ status }) => status === "read").map(({ event }) => event.id));
        const came = at(paths.events);
        const wanted = one.events.filter(({ event, at: acceptedAt }) => mustArrive(one, acceptedAt) ?? came.includes(event.id));
        expect(came).toEqual(wanted.map(({ event }) => event.id));
        const moves = movesOf(one);
        expect(at(paths.transitions)).toEqual(came.filter((id) => moves.has(id as string)));
        for (const { event, status, at: acceptedAt } of one.events) {
          words[status === "read" || came.includes(event.id) ? "routed" : "ignored"] += 1;
          if (one.registeredAt !== null && acceptedAt > one.registeredAt) sums.direct += 1;
          else if (came.includes(event.id)) sums.released += 1;
          else sums.ignored += 1;
        }
      }
    }),
    { numRuns: 8 },
  );
  // All three ways were gone.
  expect(Math.min(...Object.values(sums))).toBeGreaterThan(20);

  // From the rows: every event once, its word final; no delivery but those that came, each with an id of its own.
  const ended = rowsOf<{ disposition: number; n: number }>(
    relay.storePath,
    "SELECT disposition, count(*) AS n FROM events WHERE seq NOT IN (SELECT event FROM queue) GROUP BY 1 ORDER BY 1",
  );
  expect(ended.map(({ disposition, n }) => [dispositions[disposition], n])).toEqual(Object.entries(words));
  const deliveries = rowsOf<{ n: number }>(relay.storePath, "SELECT count(*) AS n FROM deliveries")[0]?.n;
  expect(relay.downstream.counts()).toMatchObject({ arrivals: deliveries, taken: deliveries, duplicates: 0 });
});
