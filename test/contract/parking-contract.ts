import { describe, expect, test } from "vitest";
import { accept, delivered, openWith, settle, stateOf } from "./contract-tools.ts";
import { anEvent, start } from "./store-events.ts";
import type { ContractStore, OpenSubject } from "./store-port.ts";

const tracked = { name: "ours", match: { tracked: true } };
const routes = [tracked, { name: "all" }];
const registration = { account: "main", wamid: "w", reference: "order 1" };

export function parkingContract(open: OpenSubject): void {
  describe("parking", () => {
    test("parks only for routes that match tracked messages", async () => {
      const { store } = await openWith(open, routes, { parkFor: 60_000 });
      const outcome = await store.accept(anEvent({ wamid: "w" }));
      expect(outcome).toMatchObject({ result: "accepted", disposition: "routed", due: [{ route: "all" }] });
      expect(await store.event(outcome.seq)).toMatchObject({
        parkedUntil: start + 60_000,
        verdicts: [
          ["ours", "park"],
          ["all", "deliver"],
        ],
      });
      expect(await stateOf(store, outcome.seq, "ours")).toBeNull();
      expect(await stateOf(store, outcome.seq, "all")).toBe("waiting");
    });

    test("registered before: parks nothing", async () => {
      const { store } = await openWith(open, routes);
      expect(await store.register([registration], start)).toEqual({ created: 1, due: [] });
      const seq = await accept(store, { wamid: "w" });
      expect(await store.event(seq)).toMatchObject({ disposition: "routed", parkedUntil: null });
      expect(await stateOf(store, seq, "ours")).toBe("waiting");
    });

    test("registered after: releases everything in the order accepted, before later events, across a restart", async () => {
      const subject = await openWith(open, [tracked]);
      const seqs = [];
      for (const status of ["sent", "delivered", "read"]) seqs.push(await accept(subject.store, { wamid: "w", status }));
      const stranger = await accept(subject.store, { wamid: "v" });
      expect(await subject.store.event(seqs[0] as number)).toMatchObject({ disposition: "parked" });
      const store = await subject.reopen();
      const at = start + 30_000;
      const { created, due } = await store.register([registration], at);
      expect([created, due]).toMatchObject([1, [{ route: "ours", event: seqs[0], at }]]);
      for (const seq of seqs)
        expect(await store.event(seq)).toMatchObject({ disposition: "routed", parkedUntil: null, verdicts: [["ours", "deliver"]] });
      seqs.push(await accept(store, { wamid: "w", status: "read", receivedAt: at }));
      const order = [];
      for (let next: number | null = seqs[0] as number; next !== null; next = await settle(store, "ours", next, delivered, { at }))
        order.push(next);
      expect(order).toEqual(seqs);
      expect(await store.event(stranger)).toMatchObject({ disposition: "parked" });
      expect(await stateOf(store, stranger, "ours")).toBeNull();
    });

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

    test("registrations of many messages together release no more than one does", async () => {
      const { store } = await openWith(open, [tracked], { parkFor: 60_000 });
      const seqs = [];
      for (let n = 0; n < many; n += 1) seqs.push(await accept(store, { wamid: `w${n}` }));
      const { created, due } = await store.register(
        seqs.map((_, n) => ({ account: "main", wamid: `w${n}` })),
        start,
      );
      expect(created).toBe(many);
      expect(due.length).toBeLessThan(many);
      expect(await parkedOf(store, seqs)).toBe(many - due.length);
      const late = [...due];
      for (let step = await store.releaseParked(start, 10); step.released > 0; step = await store.releaseParked(start, 10))
        late.push(...step.due);
      expect(late.map(({ event }) => event).toSorted((a, b) => a - b)).toEqual(seqs);
    });

    test("a new status does not overtake earlier ones that wait for release", async () => {
      const { store } = await openWith(open, [{ name: "ours", match: { tracked: true, references: ["order *"] } }, { name: "all" }], {
        parkFor: 60_000,
      });
      const seqs = await parkMany(store, "w");
      await store.register([registration], start);
      const late = await store.accept(anEvent({ wamid: "w", status: "read" }));
      expect(await store.event(late.seq)).toMatchObject({
        disposition: "routed",
        // Parked like the others, or held behind them.
        verdicts: [
          ["ours", expect.stringMatching(/^(?:park|deliver)$/)],
          ["all", "deliver"],
        ],
      });
      expect([null, "held"]).toContain(await stateOf(store, late.seq, "ours"));
      await releaseAll(store);
      const order = [];
      for (let next: number | null = seqs[0] as number; next !== null; next = await settle(store, "ours", next, delivered, { at: start }))
        order.push(next);
      expect(order).toEqual([...seqs, late.seq]);
      // Nothing waits any more: what comes now is planned at once.
      const after = await accept(store, { wamid: "w", status: "read" });
      expect(await stateOf(store, after, "ours")).toBe("waiting");
      expect(await store.audit(start)).toMatchObject({ balanced: true, offenders: [] });
    });

    test("events that wait for release do not expire", async () => {
      const { store } = await openWith(open, [tracked], { parkFor: 60_000 });
      const seqs = await parkMany(store, "w");
      const stranger = await accept(store, { wamid: "v" });
      await store.register([registration], start);
      while ((await store.expireParked(start + 60_000, 1_000)) > 0);
      expect(await store.event(stranger)).toMatchObject({ disposition: "ignored" });
      await releaseAll(store);
      for (const seq of seqs) expect(await store.event(seq)).toMatchObject({ disposition: "routed" });
    });

    test("a late registration leaves ignored events ignored, and applies to later ones", async () => {
      const { store } = await openWith(open, [tracked], { parkFor: 60_000 });
      const early = await accept(store, { wamid: "w" });
      const later = await accept(store, { wamid: "w", receivedAt: start + 1 });
      expect(await store.expireParked(start + 59_999, 10)).toBe(0);
      expect(await store.expireParked(start + 60_000, 10)).toBe(1);
      expect(await store.event(early)).toMatchObject({
        disposition: "ignored",
        parkedUntil: null,
        verdicts: [["ours", "skip", "untracked"]],
      });
      expect(await store.register([registration], start + 60_000)).toMatchObject({ created: 1, due: [{ event: later }] });
      expect(await stateOf(store, early, "ours")).toBeNull();
      expect(await stateOf(store, later, "ours")).toBe("waiting");
      expect(await store.expireParked(start + 90_000, 10)).toBe(0);
      const after = await accept(store, { wamid: "w", receivedAt: start + 90_000 });
      expect(await stateOf(store, after, "ours")).toBe("held");
    });

    test("an event that other routes took stays routed when it expires", async () => {
      const { store } = await openWith(open, routes);
      const seq = await accept(store, { wamid: "w" });
      for (let n = 0; n < 4; n += 1) await accept(store, { wamid: `v${n}` });
      expect(await store.expireParked(start + 60_000, 3)).toBe(3);
      expect(await store.expireParked(start + 60_000, 3)).toBe(2);
      expect(await store.event(seq)).toMatchObject({
        disposition: "routed",
        verdicts: [
          ["ours", "skip", "untracked"],
          ["all", "deliver"],
        ],
      });
    });

    test("on release the route matches the registered facts and whether the event was a transition", async () => {
      const { store } = await openWith(open, [
        { name: "vip", match: { tracked: true, references: ["vip-*"] } },
        { name: "moves", match: { tracked: true }, emit: "transitions" },
      ]);
      const read = await accept(store, { wamid: "w", status: "read" });
      const sent = await accept(store, { wamid: "w", status: "sent" });
      expect(await store.event(sent)).toMatchObject({
        verdicts: [
          ["vip", "park"],
          ["moves", "skip", "no transition"],
        ],
      });
      await store.register([registration], start);
      expect(await store.event(read)).toMatchObject({
        disposition: "routed",
        verdicts: [
          ["vip", "skip", "reference"],
          ["moves", "deliver"],
        ],
      });
      expect(await store.event(sent)).toMatchObject({ disposition: "filtered", parkedUntil: null });
      await accept(store, { wamid: "v", status: "sent" });
      const { due } = await store.register([{ account: "main", wamid: "v", reference: "vip-7" }], start);
      expect(due.map(({ route }) => route).toSorted()).toEqual(["moves", "vip"]);
    });

    test("registering again adds missing facts, and a contradiction is rejected", async () => {
      const { store } = await openWith(open, routes);
      await accept(store, { wamid: "w", status: "read" });
      expect(await store.register([{ account: "main", wamid: "w" }], start)).toMatchObject({ created: 1 });
      expect(await store.register([registration, registration], start + 5)).toEqual({ created: 0, due: [] });
      await expect(store.register([{ ...registration, reference: "order 2" }], start + 6)).rejects.toMatchObject({ code: "conflict" });
      expect(await store.message("main", "w")).toMatchObject({ status: "read", registeredAt: start, reference: "order 1" });
    });
  });
}
