import { describe, expect, test } from "vitest";
import type { ContractStore, OpenSubject } from "./contract-store.ts";
import { accept, delivered, openWith, settle } from "./contract-tools.ts";
import { start } from "./store-events.ts";

const tracked = { name: "ours", match: { tracked: true } };
const registration = { account: "main", wamid: "w", reference: "order 1" };

export function parkingContract(open: OpenSubject): void {
  describe("parking", () => {
    /** More than one step releases. */
    const many = 130;

    async function parkMany(store: ContractStore, wamid: string): Promise<number[]> {
      const seqs = [];
      for (let n = 0; n < many; n += 1) seqs.push(await accept(store, { wamid, status: n % 2 === 0 ? "sent" : "delivered" }));
      return seqs;
    }

    /** Goes on until nothing is left, and gives the most events of a step. */
    async function releaseAll(store: ContractStore, limit = 10): Promise<number> {
      let most = 0;
      for (;;) {
        const { released } = await store.releaseParked(start, limit);
        if (released === 0) return most;
        most = Math.max(most, released);
      }
    }

    async function parkedOf(store: ContractStore, seqs: readonly number[]): Promise<number> {
      const found = await Promise.all(seqs.map((seq) => store.event(seq)));
      return found.filter((event) => event?.disposition === "parked").length;
    }

    test("registration releases a bounded number of events at once, and the rest in ordered steps, across a restart", async () => {
      const subject = await openWith(open, [tracked], { parkFor: 60_000 });
      const seqs = await parkMany(subject.store, "w");
      const { created, due } = await subject.store.register([registration], start);
      expect([created, due]).toMatchObject([1, [{ route: "ours", event: seqs[0], at: start }]]);
      const left = await parkedOf(subject.store, seqs);
      expect(left).toBeGreaterThan(0);
      const store = await subject.reopen();
      expect((await store.releaseParked(start, 10)).released).toBeGreaterThan(0);
      expect(await parkedOf(store, seqs)).toBeLessThan(left);
      const again = await subject.reopen();
      await releaseAll(again);
      expect(await parkedOf(again, seqs)).toBe(0);
      const order = [];
      for (let next: number | null = seqs[0] as number; next !== null; next = await settle(again, "ours", next, delivered, { at: start }))
        order.push(next);
      expect(order).toEqual(seqs);
      expect(await again.audit(start)).toMatchObject({ balanced: true, offenders: [] });
    });
  });
}
