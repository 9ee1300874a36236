import fc from "fast-check";
import { expect, test } from "vitest";
import { beginKey, endKey, type KeyHeld, type SendKey } from "../../src/model/send.ts";
import { soakSize } from "../harness/soak.ts";
import type { OpenSubject } from "./contract-store.ts";
import { accept, openWith, stateOf } from "./contract-tools.ts";
import { rulesFor, start } from "./store-events.ts";

const message = (key: string, account = "main"): SendKey => ({ account, kind: "message", key });
const run = (key: string): SendKey => ({ account: "main", kind: "run", key });
const claim = (fingerprint = "f", resend = 0, at = start) => ({
  fingerprint,
  resend,
  about: "+54…01",
  at,
});
const sentMessage = (wamid: string, more: object = {}) => ({
  type: "message" as const,
  id: `id-${wamid}`,
  wamid,
  status: "pending",
  conversationId: "c1",
  reference: undefined,
  metadata: undefined,
  ...more,
});
const done = (wamid: string, at = start) => ({
  end: "done" as const,
  at,
  answer: { wamid },
  sent: sentMessage(wamid),
});

export function sendContract(open: OpenSubject): void {
  test("a key is claimed once; later claims get its state, and its answer when done", async () => {
    const { store } = await openWith(open, []);
    expect(await store.findSend(message("k"))).toBeNull();
    expect(await store.beginSend(message("k"), claim("f"))).toBeNull();
    expect(await store.beginSend(message("k"), claim("other"))).toMatchObject({
      state: "calling",
      fingerprint: "f",
      attempts: 1,
      about: "+54…01",
    });
    await store.settleSend(message("k"), done("w", start + 7));
    expect(await store.beginSend(message("k"), claim("f", 1))).toEqual({
      state: "done",
      fingerprint: "f",
      attempts: 1,
      about: "+54…01",
      startedAt: start,
      answer: { wamid: "w" },
    });
  });

  test("accounts and kinds have separate keys", async () => {
    const { store } = await openWith(open, []);
    for (const key of [message("k"), message("K"), message("k", "other"), run("k")]) {
      expect(await store.beginSend(key, claim(JSON.stringify(key)))).toBeNull();
    }
    expect(await store.findSend(run("k"))).toMatchObject({ fingerprint: JSON.stringify(run("k")) });
  });

  test("a call whose process died has an unknown outcome", async () => {
    const subject = await openWith(open, []);
    await subject.store.beginSend(message("k"), claim());
    await subject.store.beginSend(message("done"), claim());
    await subject.store.settleSend(message("done"), done("w"));
    const store = await subject.reopen();
    expect(await store.findSend(message("k"))).toMatchObject({
      state: "unknown",
      attempts: 1,
      startedAt: start,
    });
    expect(await store.beginSend(message("k"), claim())).toMatchObject({ state: "unknown" });
    expect(await store.findSend(message("done"))).toMatchObject({
      state: "done",
      answer: { wamid: "w" },
    });
    expect(await store.beginSend(message("k"), claim("f", 1, start + 9))).toBeNull();
    expect(await store.findSend(message("k"))).toMatchObject({
      state: "calling",
      attempts: 2,
      startedAt: start + 9,
    });
  });

  test("random calls leave a key in the state machine's state, across restarts", async () => {
    const step = fc.oneof(
      fc.record({
        do: fc.constant("begin" as const),
        fingerprint: fc.constantFrom("f", "g"),
        resend: fc.integer({ min: 0, max: 3 }),
      }),
      fc.record({
        do: fc.constant("settle" as const),
        end: fc.constantFrom("done" as const, "not-done" as const, "unknown" as const),
      }),
      fc.record({ do: fc.constant("restart" as const) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 15 }), async (steps) => {
        const subject = await open(rulesFor([]));
        let { store } = subject;
        let held: KeyHeld | null = null;
        for (const each of steps) {
          if (each.do === "begin") {
            const begun = beginKey(held, each);
            expect(
              (await store.beginSend(message("k"), claim(each.fingerprint, each.resend))) === null,
            ).toBe(begun !== null);
            held = begun ?? held;
          } else if (each.do === "settle") {
            await store.settleSend(
              message("k"),
              each.end === "done" ? done("w") : { end: each.end },
            );
            held = held === null ? null : endKey(held, each.end);
          } else {
            store = await subject.reopen();
            if (held?.state === "calling") held = endKey(held, "unknown");
          }
          const found = await store.findSend(message("k"));
          if (held === null) expect(found).toBeNull();
          else expect(found).toMatchObject(held);
        }
        await subject.end();
      }),
      { numRuns: soakSize(12, 25) },
    );
  });

  test("registers a sent message with status, facts and time", async () => {
    const { store } = await openWith(open, []);
    await store.beginSend(message("k"), claim());
    const sent = sentMessage("w", { reference: "order-1", metadata: { team: "a" } });
    await store.settleSend(message("k"), { end: "done", at: start + 5, answer: {}, sent });
    expect(await store.message("main", "w")).toMatchObject({
      status: "pending",
      registeredAt: start + 5,
      reference: "order-1",
      times: { pending: start + 5 },
    });
  });

  test("releases an event that arrived before the answer, and keeps its status", async () => {
    const { store } = await openWith(open, [{ name: "mine", match: { tracked: true } }]);
    await store.beginSend(message("k"), claim());
    const seq = await accept(store, { wamid: "w", status: "delivered" });
    expect(await stateOf(store, seq, "mine")).toBeNull();
    const due = await store.settleSend(message("k"), done("w"));
    expect(due).toMatchObject([{ route: "mine", event: seq }]);
    expect(await store.message("main", "w")).toMatchObject({ status: "delivered" });
    // Told again, as after a failure to store: nothing more comes of it.
    expect(await store.settleSend(message("k"), done("w"))).toEqual([]);
  });

  test("keeps facts registered before, and finishes the key", async () => {
    const { store } = await openWith(open, []);
    await store.register([{ account: "main", wamid: "w", id: "another" }], start);
    await store.beginSend(message("k"), claim());
    await store.settleSend(message("k"), done("w"));
    expect(await store.findSend(message("k"))).toMatchObject({ state: "done" });
    expect(await store.message("main", "w")).toMatchObject({ status: "pending" });
  });

  test("registers an answer without id and conversation by its wamid, and a registration adds them", async () => {
    const { store } = await openWith(open, []);
    await store.beginSend(message("k"), claim());
    const sent = sentMessage("w", { id: null, conversationId: null });
    await store.settleSend(message("k"), { end: "done", at: start, answer: {}, sent });
    expect(await store.message("main", "w")).toMatchObject({
      status: "pending",
      registeredAt: start,
    });
    await store.register([{ account: "main", wamid: "w", id: "late" }], start + 1);
    const due = {
      account: "main",
      now: start + 9,
      dueBy: start + 9,
      after: 1,
      limit: 9,
      leaseMs: 9,
    };
    expect(await store.claimPolls(due)).toMatchObject([{ wamid: "w", messageId: "late" }]);
  });

  test("registers a run as started, and keeps an end that arrived first", async () => {
    const { store } = await openWith(open, [{ name: "mine", match: { tracked: true } }]);
    const started = (runId: string) => ({
      type: "run" as const,
      runId,
      reference: `order-${runId}`,
      metadata: undefined,
    });
    await store.beginSend(run("order-r"), claim());
    await store.settleSend(run("order-r"), {
      end: "done",
      at: start,
      answer: {},
      sent: started("r"),
    });
    expect(await store.run("main", "r")).toMatchObject({ status: "started" });
    const seq = await accept(store, { runId: "r", event: "automation.failed" });
    expect(await store.event(seq)).toMatchObject({ previousStatus: "started", transition: true });
    expect(await stateOf(store, seq, "mine")).toBe("waiting");

    await store.beginSend(run("order-q"), claim());
    const early = await accept(store, { runId: "q", event: "automation.completed" });
    const due = await store.settleSend(run("order-q"), {
      end: "done",
      at: start,
      answer: {},
      sent: started("q"),
    });
    expect(due).toMatchObject([{ route: "mine", event: early }]);
    expect(await store.run("main", "q")).toMatchObject({ status: "completed" });
  });

  test("deletes keys of messages after their time, but never references of runs or calls in flight", async () => {
    const { store } = await openWith(open, []);
    for (const key of [message("old"), run("old"), message("lost")])
      await store.beginSend(key, claim("f", 0, start));
    await store.settleSend(message("old"), done("w"));
    await store.settleSend(run("old"), { end: "unknown" });
    await store.beginSend(message("new"), claim("f", 0, start + 10));
    await store.settleSend(message("new"), done("v"));
    expect(await store.forgetSends(start + 10, 100)).toBe(1);
    expect(await store.findSend(message("old"))).toBeNull();
    for (const key of [run("old"), message("lost"), message("new")])
      expect(await store.findSend(key)).not.toBeNull();
  });
}
