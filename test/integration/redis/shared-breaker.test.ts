import fc from "fast-check";
import { expect, test } from "vitest";
import { createBreaker } from "../../../src/deliver/breaker.ts";
import { createSharedBreaker } from "../../../src/deliver/shared-breaker.ts";
import { createRedisBreaker } from "../../../src/store/redis/shared-limits.ts";
import { useGivenTime } from "./given-time.ts";

const given = useGivenTime();
const settings = { failures: 3, pause: 1000, longest: 5000 };
const probeMs = 20_000;

const triedNow = (world: ReturnType<typeof setUp>) =>
  createRedisBreaker(world.link(), "relay", world.name, world.clock.now).tryNow(settings);

function setUp(count: number, own = settings) {
  const { clock: hands, ...rest } = given.world();
  let back = 0;
  const clock = { ...hands, now: () => hands.now() - back };
  const world = {
    ...rest,
    clock,
    /** For all of them, and for Redis. */
    setBack(ms: number) {
      back += ms;
    },
  };
  const name = given.fresh();
  const processes = Array.from({ length: count }, (_, index) => {
    const link = world.link();
    const told = { changes: 0 };
    const breaker = createSharedBreaker(own, {
      shared: createRedisBreaker(link, "relay", name, world.clock.now),
      clock: world.clock,
      holder: `p${index}`,
      probeMs,
      changed() {
        told.changes += 1;
      },
    });
    return { breaker, link, told };
  });
  type Process = (typeof processes)[number];

  /** As a lane asks: again once the answer has come. */
  async function mayStart({ breaker }: Process): Promise<boolean> {
    if (breaker.mayStart()) return true;
    await world.quiet();
    return breaker.mayStart();
  }
  async function fail({ breaker }: Process, times: number): Promise<void> {
    for (let n = 0; n < times; n += 1) breaker.record(false);
    await world.quiet();
  }
  return { ...world, name, processes: processes as [Process, Process, Process], mayStart, fail };
}

test("several processes agree with a single breaker, whatever happens", async () => {
  type Move = { by: number } & ({ verdict: "s" | "f" | "n" } | { ask: true } | { wait: number });
  const by = fc.nat({ max: 2 });
  const move: fc.Arbitrary<Move> = fc.oneof(
    fc.record({ by, verdict: fc.constantFrom("s" as const, "f" as const, "f" as const, "f" as const, "n" as const) }),
    fc.record({ by, ask: fc.constant(true as const) }),
    fc.record({ by, wait: fc.integer({ min: 0, max: 2500 }) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(move, { minLength: 40, maxLength: 80, size: "max" }), async (moves) => {
      const { clock, link } = given.world();
      const shared = createRedisBreaker(link(), "relay", given.fresh(), clock.now);
      const model = createBreaker(settings, clock.now);
      let prober: number | null = null;
      for (const step of moves) {
        if ("wait" in step) await clock.advance(step.wait);
        if (model.state() !== "half-open") prober = null;
        const verdict = "verdict" in step ? step.verdict : "";
        // Somebody else's "neither" does not end the probe.
        if (verdict === "n" && step.by === prober) {
          model.record("neutral");
          prober = null;
        } else if (verdict === "s" || verdict === "f") model.record(verdict === "s");
        if (model.state() !== "half-open") prober = null;
        const news = await shared.step({
          holder: `p${step.by}`,
          verdicts: verdict,
          probeMs: "ask" in step ? probeMs : null,
          pauseMs: null,
          settings,
        });
        if ("ask" in step && model.state() === "half-open" && model.mayStart()) prober = step.by;
        expect(news.state).toBe(model.state());
        expect(news.openMs).toBe((model.openUntil() ?? clock.now()) - clock.now());
        expect(news.ownsProbe).toBe(prober === step.by);
        expect(news.probeMs > 0).toBe(prober !== null);
      }
    }),
    { numRuns: 40 },
  );
});

test("successes cost no round trip, and failures are summed over processes until one succeeds", async () => {
  const { processes, calls, mayStart, fail, advance } = setUp(3);
  const [one, two, three] = processes;
  for (const process of processes) expect(await mayStart(process)).toBe(true);
  const before = calls();
  for (let n = 0; n < 1000; n += 1) {
    expect(one.breaker.mayStart()).toBe(true);
    one.breaker.record(true);
  }
  expect(calls()).toBe(before);
  await fail(one, 1);
  await fail(two, 1);
  expect(three.breaker.mayStart()).toBe(true);
  await advance(1000);
  three.breaker.record(true);
  await fail(one, 1);
  await fail(two, 1);
  expect(two.breaker.state()).toBe("closed");
  await fail(three, 1);
  expect(three.breaker.state()).toBe("open");
  expect(three.breaker.mayStart()).toBe(false);
});

test("holds the next start before Redis answers when the failures open the breaker", async () => {
  const { processes, mayStart, quiet } = setUp(1);
  const [one] = processes;
  expect(await mayStart(one)).toBe(true);
  for (let n = 0; n < 3; n += 1) one.breaker.record(false);
  expect(one.breaker.mayStart()).toBe(false);
  await quiet();
  expect(one.breaker.state()).toBe("open");
});

test("every process sees an open breaker within a second, and one probe closes it for all", async () => {
  const { processes, clock, mayStart, fail, advance } = setUp(3);
  const [one, two, three] = processes;
  expect(await mayStart(two)).toBe(true);
  await fail(one, 3);
  expect(two.breaker.mayStart()).toBe(true);
  await advance(1000);
  expect(two.breaker.state()).toBe("half-open");
  // The probe fails: twice the pause. By now who was idle asks before it starts.
  expect(await mayStart(one)).toBe(true);
  one.breaker.record(false);
  expect(await mayStart(three)).toBe(false);
  expect((three.breaker.openUntil() as number) - clock.now()).toBe(2000);
  await advance(2000);
  const starts = [];
  for (const process of processes) starts.push(await mayStart(process));
  expect(starts.filter((start) => start)).toHaveLength(1);
  expect(processes.filter(({ breaker }) => breaker.waitsForProbe())).toHaveLength(3);
  const changes = three.told.changes;
  processes[starts.indexOf(true)]?.breaker.record(true);
  await advance(300);
  expect(processes.map(({ breaker }) => breaker.state())).toEqual(["closed", "closed", "closed"]);
  expect(three.told.changes).toBeGreaterThan(changes);
});

test("another process gets a probe whose process died or did not start it", async () => {
  const { processes, mayStart, fail, advance, quiet } = setUp(3);
  const [one, two, three] = processes;
  await fail(one, 3);
  await advance(1000);
  expect(await mayStart(one)).toBe(true);
  one.breaker.close();
  expect(await mayStart(two)).toBe(false);
  await advance(probeMs);
  // Two asks, and then has nothing to send after all.
  two.breaker.mayStart();
  await quiet();
  expect(await mayStart(three)).toBe(false);
  await advance(1500);
  expect(await mayStart(three)).toBe(true);
});

test("a pause holds all processes, and does not change the breaker", async () => {
  const { processes, clock, mayStart, advance } = setUp(2);
  const [one, two] = processes;
  expect(await mayStart(two)).toBe(true);
  one.breaker.pause(clock.now() + 30_000);
  expect(one.breaker.pausedUntil()).toBe(clock.now() + 30_000);
  const until = clock.now() + 30_000;
  await advance(1000);
  expect(two.breaker.pausedUntil()).toBe(until);
  expect(two.breaker.state()).toBe("closed");
});

test("a pause that an operator ends is over for all processes within a second", async () => {
  const world = setUp(3);
  const { processes, clock, mayStart, advance, quiet } = world;
  const [one, two, three] = processes;
  for (const process of [one, two]) expect(await mayStart(process)).toBe(true);
  one.breaker.pause(clock.now() + 3_600_000);
  await advance(1000);
  expect(two.breaker.pausedUntil()).toBeGreaterThan(clock.now());
  const changes = two.told.changes;
  expect(await triedNow(world)).toBe(true);
  expect(await triedNow(world)).toBe(false);
  // Much later than anybody was asked for a start.
  await advance(1000);
  for (const { breaker } of [one, two]) expect(breaker.pausedUntil()).toBeLessThanOrEqual(clock.now());
  expect(two.told.changes).toBeGreaterThan(changes);
  expect(await mayStart(three)).toBe(true);
  await quiet();
  expect(three.breaker.pausedUntil()).toBeLessThanOrEqual(clock.now());
});

test("an operator has one process send a probe within a second, and its success lets all start", async () => {
  const world = setUp(3, { ...settings, pause: 3_600_000, longest: 3_600_000 });
  const { processes, clock, mayStart, fail, advance, quiet } = world;
  const [one, two] = processes;
  for (const process of processes) expect(await mayStart(process)).toBe(true);
  await fail(one, 3);
  two.breaker.pause(clock.now() + 3_600_000);
  await quiet();
  expect(await mayStart(two)).toBe(false);
  expect(one.breaker.tryNow()).toBe(true);
  expect(await triedNow(world)).toBe(true);
  expect(await triedNow(world)).toBe(false);
  await advance(1000);
  const starts = [];
  for (const process of processes) starts.push(await mayStart(process));
  expect(starts.filter(Boolean)).toEqual([true]);
  const prober = processes[starts.indexOf(true)];
  prober?.breaker.record(true);
  await quiet();
  await advance(1000);
  for (const process of processes) expect(await mayStart(process)).toBe(true);
});

test("shares a pause later when Redis was unavailable", async () => {
  const { processes, clock, mayStart, advance } = setUp(2);
  const [one, two] = processes;
  expect(await mayStart(one)).toBe(true);
  expect(await mayStart(two)).toBe(true);
  one.link.cut = true;
  const until = clock.now() + 60_000;
  one.breaker.pause(until);
  await advance(2000);
  expect(one.breaker.pausedUntil()).toBe(until);
  one.link.cut = false;
  await advance(3000);
  await mayStart(two);
  expect(one.breaker.pausedUntil()).toBe(until);
  expect(two.breaker.pausedUntil()).toBe(until);
});

test("a clock that is set back does not prolong an open breaker or a pause", async () => {
  const open = setUp(2, { failures: 3, pause: 5000, longest: 5000 });
  for (const process of open.processes) expect(await open.mayStart(process)).toBe(true);
  await open.fail(open.processes[0], 3);
  open.setBack(3_600_000);
  await open.advance(1000);
  for (const { breaker } of open.processes) expect(breaker.state()).toBe("open");
  await open.advance(6000);
  for (const { breaker } of open.processes) expect(breaker.state()).toBe("half-open");

  const paused = setUp(3);
  const { clock, processes, setBack, advance, mayStart } = paused;
  const [one, two, late] = processes;
  expect(await mayStart(two)).toBe(true);
  one.breaker.pause(clock.now() + 5000);
  await advance(1000);
  setBack(3_600_000);
  for (const { breaker } of [one, two]) {
    expect(breaker.pausedUntil()).toBeGreaterThan(clock.now());
    expect(breaker.pausedUntil()).toBeLessThanOrEqual(clock.now() + 5000);
  }
  await mayStart(late);
  expect(late.breaker.pausedUntil()).toBeGreaterThan(clock.now());
  await advance(6000);
  for (const { breaker } of processes) expect(breaker.pausedUntil()).toBeLessThanOrEqual(clock.now());
});

test("without Redis a process uses its own breaker, and shares again afterwards", async () => {
  const { processes, mayStart, fail, advance } = setUp(2);
  const [one, two] = processes;
  expect(await mayStart(one)).toBe(true);
  await fail(one, 2);
  one.link.cut = true;
  await fail(one, 1);
  expect(one.breaker.state()).toBe("open");
  expect(one.breaker.mayStart()).toBe(false);
  await advance(1000);
  expect([one.breaker.mayStart(), one.breaker.mayStart()]).toEqual([true, false]);
  one.breaker.record(true);
  expect(one.breaker.mayStart()).toBe(true);
  await fail(two, 3);
  expect(one.breaker.state()).toBe("closed");
  one.link.cut = false;
  await advance(1000);
  expect(one.breaker.state()).not.toBe("closed");
});

test("a closed breaker without failures leaves nothing in Redis", async () => {
  const { processes, mayStart, fail, quiet } = setUp(1);
  const [one] = processes;
  expect(await mayStart(one)).toBe(true);
  const before = await given.client().keys("{relay}:breaker:*");
  await fail(one, 1);
  expect(await given.client().keys("{relay}:breaker:*")).toHaveLength(before.length + 1);
  one.breaker.record(true);
  await quiet();
  expect(await given.client().keys("{relay}:breaker:*")).toEqual(before);
});
