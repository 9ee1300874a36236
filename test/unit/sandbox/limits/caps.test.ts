import fc from "fast-check";
import { expect, test } from "vitest";
import type { Plan } from "../../../../src/sandbox/world/records.ts";
import { anAccount, refusal } from "./an-account.ts";

const caps = { escala: { requests: 300, messages: 60 }, enterprise: { requests: 1_200, messages: 300 } } as const;

test("a message finds the requests cap used up by others", () => {
  const { limits, account } = anAccount();
  for (let call = 0; call < 300; call += 1) limits.admit(account, "other");
  expect(refusal(() => limits.admit(account, "message"))?.headers["x-ratelimit-limit"]).toBe("300");
});

test("accounts do not share caps", () => {
  const { limits, account, add } = anAccount();
  const other = add("other", []);
  for (let call = 0; call < 300; call += 1) limits.admit(account, "other");
  expect(refusal(() => limits.admit(account, "other"))?.status).toBe(429);
  expect(refusal(() => limits.admit(other, "other"))).toBe(null);
});

test("a greater plan is felt at once", () => {
  const { limits, account } = anAccount();
  for (let call = 0; call < 300; call += 1) limits.admit(account, "other");
  account.plan = "enterprise";
  for (let call = 300; call < 1_200; call += 1) limits.admit(account, "other");
  expect(refusal(() => limits.admit(account, "other"))?.headers["x-ratelimit-limit"]).toBe("1200");
});

test("unlimited: nothing is refused, everything is counted", () => {
  const { limits, account } = anAccount({ isUnlimited: true });
  account.usage.apiCalls = 300_000;
  for (let call = 0; call < 2_000; call += 1) limits.admit(account, "message");
  expect(limits.usage(account).apiCalls).toBe(302_000);
  expect(limits.perMinute("main")).toEqual({ requests: { last: 2_000, peak: 2_000 }, messages: { last: 2_000, peak: 2_000 }, refused: 0 });
});

/** Calls of one account, each some time after the one before. */
const someCalls = fc.array(
  fc.record({
    // Long waits, so that windows end; and bursts, so that caps are met.
    waitMs: fc.oneof({ weight: 6, arbitrary: fc.constant(0) }, fc.integer({ min: 1, max: 2_000 }), fc.integer({ min: 0, max: 130_000 })),
    call: fc.constantFrom("message" as const, "other" as const),
    burst: fc.integer({ min: 1, max: 120 }),
  }),
  { maxLength: 60 },
);

test("windows: never more than the cap let in, nobody refused who need not be, refused calls count nowhere", async () => {
  await fc.assert(
    fc.asyncProperty(someCalls, fc.constantFrom<Plan>("escala", "enterprise"), async (steps, plan) => {
      const { limits, account, clock } = anAccount({ plan });
      const cap = caps[plan as "escala" | "enterprise"];
      // The rule itself, from the list of all calls that were let in: a window opens with the first after the last one ended.
      const model = { requests: { openedAt: -Infinity, count: 0 }, messages: { openedAt: -Infinity, count: 0 } };
      let admitted = 0;
      let refusals = 0;
      for (const { waitMs, call, burst } of steps) {
        await clock.advance(waitMs);
        const now = clock.now();
        for (const window of Object.values(model)) {
          if (now >= window.openedAt + 60_000) window.count = 0;
        }
        for (let one = 0; one < burst; one += 1) {
          const full = call === "message" && model.messages.count >= cap.messages ? "messages" : "requests";
          const fault = refusal(() => limits.admit(account, call));
          if (model[full].count >= cap[full]) {
            expect(fault?.headers["x-ratelimit-limit"]).toBe(String(cap[full]));
            const seconds = Number(fault?.headers["retry-after"]);
            expect(seconds * 1_000).toBeGreaterThanOrEqual(model[full].openedAt + 60_000 - now);
            expect((seconds - 1) * 1_000).toBeLessThan(model[full].openedAt + 60_000 - now);
            refusals += 1;
            continue;
          }
          expect(fault).toBe(null);
          admitted += 1;
          for (const window of call === "message" ? [model.messages, model.requests] : [model.requests]) {
            if (window.count === 0) window.openedAt = now;
            window.count += 1;
          }
        }
      }
      expect(limits.usage(account).apiCalls).toBe(admitted);
      expect(limits.perMinute("main").refused).toBe(refusals);
    }),
    { numRuns: 60 },
  );
});

test.each(["trial", "growth"] as const)("%s has no API: 402 with its cause, lifted or not", (plan) => {
  for (const isUnlimited of [false, true]) {
    const { limits, account } = anAccount({ plan, isUnlimited });
    const fault = refusal(() => limits.admit(account, "other"));
    expect(fault?.status).toBe(402);
    expect(fault?.body["cause"]).toMatchObject({ type: "upgrade", plan, suggested: "escala" });
    expect(limits.usage(account).apiCalls).toBe(0);
  }
});
