import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type CallCap, callPriorities } from "../../../../src/service/admission.ts";
import { type Redis, startRedis } from "../../../setup/redis.ts";
import { createParties, mostInAWindow, type Party } from "./processes.ts";

let server: Redis;
let parties: ReturnType<typeof createParties>;

beforeAll(async () => {
  server = await startRedis();
  parties = createParties(server.url);
});
afterAll(async () => {
  parties.close();
  await server.stop();
});

const graceMs = 30_000;

const planned = fc.record({
  /** So many at once: windows are to be full. */
  many: fc.integer({ min: 1, max: 6 }),
  cap: fc.constantFrom<CallCap>("requests", "messages"),
  priority: fc.constantFrom(...callPriorities),
  took: fc.oneof(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 0, max: 90_000 })),
  // Where between being let go and its end, or the end of its grace, the service counts it: at the edges it would break first.
  counted: fc.oneof(fc.constantFrom(0, 1), fc.double({ min: 0, max: 1, noNaN: true })),
  fate: fc.constantFrom("answered", "answered", "unknown", "not-sent"),
  patience: fc.option(fc.integer({ min: 0, max: 100_000 }), { freq: 8 }),
});
type Planned = typeof planned extends fc.Arbitrary<infer T> ? T : never;
type Process = Party & { diedAt: number };

const event = fc.record({
  /** After the one before. */
  gap: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 20_000 })),
  party: fc.nat(2),
  what: fc.oneof(
    {
      weight: 12,
      arbitrary: planned,
    },
    { weight: 2, arbitrary: fc.constant("kill" as const) },
    { weight: 2, arbitrary: fc.constantFrom("down", "lost", "no", "no") },
  ),
});
const caps = fc.record({ requests: fc.integer({ min: 3, max: 12 }), messages: fc.integer({ min: 2, max: 6 }) });

test("processes that call, die and lose Redis never exceed the caps in any minute", async () => {
  await fc.assert(
    fc.asyncProperty(caps, fc.array(event, { minLength: 10, maxLength: 40 }), async (limits, events) => {
      const { clock, join } = parties.newAccount();
      const settings = { caps: limits, share: 1, graceMs } as const;
      const all: Process[] = [];
      const joined = () => Object.assign(join(settings), { diedAt: Number.POSITIVE_INFINITY });
      for (let n = 0; n < 3; n += 1) all.push(joined());
      const counted: { cap: CallCap; at: () => number }[] = [];
      const open = new Set<{ readonly party: Process }>();
      function call(party: Process, planned: Planned): void {
        const { cap, priority, took, counted: place, fate, patience } = planned;
        const controller = new AbortController();
        const forget = patience === null ? () => {} : clock.after(patience, () => controller.abort());
        const waiting = { party };
        open.add(waiting);
        const over = () => void open.delete(waiting);
        party.limiter.enter({ cap, operation: "reads", priority, signal: controller.signal }).then((permit) => {
          forget();
          const goneAt = clock.now();
          const endsAt = goneAt + took;
          // Killed meanwhile, its bytes may still arrive, as those of a call that was given up.
          const at = () => {
            const isCut = party.diedAt < endsAt;
            const until = isCut ? party.diedAt + graceMs : fate === "unknown" ? endsAt + graceMs : endsAt;
            return goneAt + place * (until - goneAt);
          };
          if (fate !== "not-sent") counted.push({ cap, at });
          clock.after(took, () => {
            if (party.diedAt > clock.now()) permit.settle({ type: fate });
            over();
          });
        }, over);
      }
      for (const { gap, party: index, what } of events) {
        await clock.advance(gap);
        const party = all[index] as Process;
        if (what === "kill") {
          party.kill();
          party.diedAt = clock.now();
          all[index] = joined();
          continue;
        }
        if (typeof what === "string") {
          party.fail = what;
          continue;
        }
        for (let n = 0; n < what.many; n += 1) call(party, what);
      }
      for (const party of all) party.fail = "no";
      // All that wait get their turn, but for those of the dead.
      const left = () => [...open].some((one) => all.includes(one.party));
      for (let minutes = 0; left() && minutes < 120; minutes += 2) await clock.advance(2 * 60_000);
      expect(left()).toBe(false);
      const timesOf = (cap: CallCap | null) => counted.filter((call) => cap === null || call.cap === cap).map(({ at }) => at());
      expect(mostInAWindow(timesOf(null))).toBeLessThanOrEqual(limits.requests);
      expect(mostInAWindow(timesOf("messages"))).toBeLessThanOrEqual(limits.messages);
    }),
    { numRuns: Number(process.env["RUNS"] ?? 12) },
  );
});
