import { expect, onTestFinished, test } from "vitest";
import type { Rules } from "../../src/store/port.ts";
import type { OpenSubject } from "./contract-store.ts";
import { accept, stateOf } from "./contract-tools.ts";
import { rulesFor, start } from "./store-events.ts";

/**
 * Rules that fail on events whose data has `poison`, or whose status is so called, until `heal`.
 */
function failingRules(rules: Rules) {
  const seen: string[] = [];
  let isFailing = true;
  let isLate = false;
  const boom = (): void => {
    if (isFailing) throw new TypeError("boom\0 of wamid.HBgNNTQ5MTE1NTU1MDAwMRUC");
  };
  return {
    seen,
    heal: () => {
      isFailing = false;
    },
    /** From now on data with `latePoison` is failed on, too. */
    growLate: () => {
      isLate = true;
    },
    rules: {
      ...rules,
      plan: (event, tracking) => {
        const { poison, latePoison } = event.data as {
          readonly poison?: boolean;
          readonly latePoison?: boolean;
        };
        if (poison === true || (latePoison === true && isLate)) boom();
        return rules.plan(event, tracking);
      },
      stepMessage: (state, step) => {
        if (step.status === "poison") boom();
        return rules.stepMessage(state, step);
      },
      failed: (_error, { event, account, source }) =>
        void seen.push(`${event} ${account} ${source}`),
    } satisfies Rules,
  };
}

async function openFailing(open: OpenSubject, match: Record<string, unknown> = {}) {
  const failing = failingRules(rulesFor([{ name: "all", match }]));
  const subject = await open(failing.rules);
  onTestFinished(() => subject.end());
  return { subject, store: subject.store, ...failing };
}

const fault = expect.stringMatching(/^could not be planned: boom\ufffd of wamid:[0-9a-f]{12}$/);

export function setAsideContract(open: OpenSubject): void {
  test("is set aside with the reason while others continue, and a replay sends it after the fault is fixed", async () => {
    const { store, subject, seen, heal } = await openFailing(open);
    const before = await accept(store, { wamid: "a" });
    const seq = await accept(store, { wamid: "b", data: { poison: true } });
    const run = await accept(store, { runId: "r", data: { poison: true } });
    const after = await accept(store, { wamid: "c" });
    expect(await store.event(seq)).toMatchObject({
      disposition: "filtered",
      fault,
      verdicts: [],
      transition: true,
    });
    expect(await store.event(run)).toMatchObject({ disposition: "filtered", fault });
    expect(seen).toEqual(
      expect.arrayContaining(["message.status main main", "automation.completed main main"]),
    );
    expect(await store.message("main", "b")).toMatchObject({ status: "sent" });
    expect((await store.due("all", start, 9)).toSorted()).toEqual([before, after]);
    expect(await store.audit(start)).toMatchObject({
      balanced: true,
      events: { filtered: 2, unaccounted: 0 },
    });

    const again = await subject.reopen();
    expect(await again.event(seq)).toMatchObject({ disposition: "filtered", fault });
    expect((await again.replayFiltered(start)).replayed).toBe(0);
    heal();
    expect(await again.replayFiltered(start)).toMatchObject({
      replayed: 2,
      due: [{ event: seq }, { event: run }],
    });
    expect(await again.event(seq)).toMatchObject({
      disposition: "routed",
      fault: null,
      verdicts: [["all", "deliver"]],
    });
    expect(await stateOf(again, seq, "all")).toBe("waiting");
    expect(await again.audit(start)).toMatchObject({ balanced: true, events: { routed: 4 } });
  });

  test("leaves its message unchanged when tracking failed, and the next event is planned", async () => {
    const { store, heal } = await openFailing(open);
    await accept(store, { wamid: "a", status: "sent" });
    const seq = await accept(store, { wamid: "a", status: "poison" });
    const unseen = await accept(store, { wamid: "b", status: "poison" });
    const last = await accept(store, { wamid: "a", status: "delivered" });
    for (const failed of [seq, unseen])
      expect(await store.event(failed)).toMatchObject({
        disposition: "filtered",
        fault,
        transition: false,
      });
    expect(await store.message("main", "a")).toMatchObject({ status: "delivered" });
    expect(await store.message("main", "b")).toMatchObject({ status: null });
    expect(await store.event(last)).toMatchObject({
      previousStatus: "sent",
      transition: true,
      disposition: "routed",
    });
    expect(await store.audit(start)).toMatchObject({ balanced: true });
    heal();
    expect((await store.replayFiltered(start)).replayed).toBe(2);
    expect(await store.audit(start)).toMatchObject({ balanced: true });
  });

  test("does not block a registration that releases other parked events", async () => {
    const { store, heal, growLate } = await openFailing(open, { tracked: true });
    const parts = { wamid: "a", data: {} };
    const first = await accept(store, parts);
    const seq = await accept(store, { ...parts, status: "delivered", data: { latePoison: true } });
    const last = await accept(store, { ...parts, status: "read" });
    expect(await store.event(seq)).toMatchObject({ disposition: "parked" });
    growLate();
    expect(await store.register([{ account: "main", wamid: "a" }], start)).toMatchObject({
      created: 1,
    });
    expect(await store.event(seq)).toMatchObject({
      disposition: "filtered",
      verdicts: [["all", "skip", "planning failed"]],
      parkedUntil: null,
    });
    for (const released of [first, last])
      expect(await store.event(released)).toMatchObject({ disposition: "routed" });
    expect(await store.audit(start)).toMatchObject({ balanced: true });
    heal();
    expect((await store.replayFiltered(start)).replayed).toBe(1);
    expect(await store.audit(start)).toMatchObject({ balanced: true });
  });
}
