import { expect, test } from "vitest";
import { anAccount, refusal } from "./an-account.ts";

const address = "203.0.113.7";

test("a valid key gives its account and itself, whichever account has it", () => {
  const { limits, add } = anAccount();
  add("other", ["k-2", "k-3"]);
  for (const [key, account] of [
    ["k-1", "main"],
    ["k-3", "other"],
    ["k-2", "other"],
    ["k-2", "other"],
  ] as const) {
    const caller = limits.authenticate(`Bearer ${key}`, address);
    expect([caller.key.key, caller.account.id]).toEqual([key, account]);
  }
});

test.each([
  undefined,
  "",
  "Bearer",
  "Bearer ",
  "Bearer k-",
  "Bearer k-11",
  "Bearer K-1",
  "bearer k-1",
  "Basic k-1",
  "k-1",
  "Bearer k-1 k-1",
])("%j is no valid key: 401 with an error to be shown and no cause", (authorization) => {
  const { limits } = anAccount();
  const fault = refusal(() => limits.authenticate(authorization, address));
  expect(fault?.status).toBe(401);
  expect(fault?.body).toEqual({ error: expect.stringContaining("clave de API"), cause: null });
});

test("a revoked key stops at once, also one that was used before", () => {
  const { limits, world } = anAccount();
  limits.authenticate("Bearer k-1", address);
  const key = world.keys.find("main", "k-1");
  if (key === undefined) throw new Error("no key");
  key.revokedAt = 1;
  world.keys.put(key);
  expect(refusal(() => limits.authenticate("Bearer k-1", address))?.status).toBe(401);
  // Still so for a key record that replaced the other, and not for one that took its text.
  world.keys.put({ ...key, revokedAt: 2 });
  expect(refusal(() => limits.authenticate("Bearer k-1", address))?.status).toBe(401);
  world.keys.delete(key.id);
  world.keys.put({ ...key, id: "another", revokedAt: null });
  expect(limits.authenticate("Bearer k-1", address).key.id).toBe("another");
});

test("the 21st bad key within a minute blocks the address for a minute, for valid keys too", async () => {
  const { limits, clock } = anAccount();
  const bad = () => refusal(() => limits.authenticate("Bearer wrong", address));
  for (let call = 1; call <= 20; call += 1) {
    expect(bad()?.status).toBe(401);
    await clock.advance(1_000);
  }
  expect(refusal(() => limits.authenticate("Bearer k-1", address))).toBe(null);
  const blocked = bad();
  expect(blocked).toMatchObject({ status: 429, headers: {} });
  expect(blocked?.body).toEqual({ error: expect.any(String) });
  expect(refusal(() => limits.authenticate("Bearer k-1", address))).toMatchObject({ status: 429, headers: {}, body: blocked?.body });
  expect(refusal(() => limits.authenticate("Bearer k-1", "203.0.113.8"))).toBe(null);

  await clock.advance(59_999);
  expect(refusal(() => limits.authenticate("Bearer k-1", address))?.status).toBe(429);
  await clock.advance(1);
  expect(refusal(() => limits.authenticate("Bearer k-1", address))).toBe(null);
  // What came during the block was not counted.
  for (let call = 1; call <= 20; call += 1) expect(bad()?.status).toBe(401);
  expect(bad()?.status).toBe(429);
  limits.forgetBlocks();
  expect(bad()?.status).toBe(401);
});

test("21 bad keys block where a minute of the clock begins between them", async () => {
  const { limits, clock } = anAccount({ now: Date.UTC(2026, 10, 15, 12, 0, 59) });
  for (let call = 0; call < 20; call += 1) {
    refusal(() => limits.authenticate(undefined, address));
    await clock.advance(2_950);
  }
  expect(refusal(() => limits.authenticate(undefined, address))?.status).toBe(429);
});
