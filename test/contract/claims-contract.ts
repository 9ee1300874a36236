import { expect, test } from "vitest";
import type { OpenSubject } from "./contract-store.ts";
import { openWith } from "./contract-tools.ts";
import { start } from "./store-events.ts";

const hour = 3_600_000;

export function claimsContract(open: OpenSubject): void {
  test("the first of concurrent calls claims a key, also across a restart", async () => {
    const subject = await openWith(open, []);
    const calls = Array.from({ length: 10 }, () => subject.store.claimOnce("code:a", start + hour));
    expect((await Promise.all(calls)).filter((isFirst) => isFirst)).toHaveLength(1);
    const store = await subject.reopen();
    expect(await store.claimOnce("code:a", start + hour)).toBe(false);
    expect([await store.isClaimed("code:a"), await store.isClaimed("code:b")]).toEqual([
      true,
      false,
    ]);
    expect(await store.claimOnce("code:b", start + hour)).toBe(true);
  });

  test("a key stays claimed until its time, whatever else is claimed", async () => {
    const { store } = await openWith(open, []);
    expect(await store.claimOnce("session:a", start + hour)).toBe(true);
    // From a process whose clock is ahead, and from one whose clock is behind.
    expect(await store.claimOnce("code:c", start + hour + 60_000)).toBe(true);
    expect(await store.claimOnce("code:d", start - hour)).toBe(true);
    expect(await store.isClaimed("session:a")).toBe(true);
  });
}
