import fc from "fast-check";
import { expect, test } from "vitest";
import { beginKey, endKey, type KeyHeld, type StoredSend } from "../../../src/model/send.ts";
import {
  type CallResult,
  type CallSteps,
  createOnce,
  type SendStore,
} from "../../../src/send/once.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";

const key = { account: "main", kind: "message", key: "k" } as const;

/**
 * A disk that outlives processes, and may refuse writes. `calling` of another process is unknown,
 * as in every store.
 */
function createDisk() {
  const disk = { held: null as (StoredSend & { caller: number }) | null, isFull: false };
  const write = async <T>(change: () => T): Promise<T> => {
    await null;
    if (disk.isFull) throw new Error("disk full");
    return change();
  };
  function open(caller: number): SendStore {
    const view = (): StoredSend | null =>
      disk.held?.state === "calling" && disk.held.caller !== caller
        ? { ...disk.held, state: "unknown" }
        : disk.held;
    const put = (held: KeyHeld | null, more: object) => {
      disk.held =
        held === null
          ? null
          : { about: "", startedAt: 0, answer: null, caller, ...disk.held, ...held, ...more };
    };
    return {
      find: async () => view(),
      begin: (_, claim) =>
        write(() => {
          const begun = beginKey(view(), claim);
          if (begun === null) return view();
          put(begun, { caller, answer: null });
          return null;
        }),
      settle: (_, ended) =>
        write(() => {
          if (disk.held !== null)
            put(endKey(disk.held, ended.end), ended.end === "done" ? { answer: ended.answer } : {});
        }),
    };
  }
  return { disk, open };
}

/** A call that waits to be told how it goes on. */
interface OpenCall {
  readonly steps: CallSteps;
  stage: "waiting" | "starting" | "away" | "between" | "over";
  end(result: CallResult): void;
  fail(error: unknown): void;
}

const only = <T extends string>(...words: T[]) => fc.record({ do: fc.constantFrom(...words) });
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("ask" as const), resend: fc.boolean() }) },
  { weight: 6, arbitrary: only("leave") },
  { weight: 4, arbitrary: only("done", "not-done", "unknown", "repeat") },
  { weight: 3, arbitrary: only("crash", "fill", "free", "free", "time") },
);

test("never sends again without a resend, and never gives a wrong answer", async () => {
  let [sentTwice, replays, resends, unknowns] = [0, 0, 0, 0];
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 40 }), async (steps) => {
      const { disk, open } = createDisk();
      const clock = createManualClock();
      let [process, begun, sent, told] = [0, 0, 0, 0];
      /** What the service has done, by the answer it gives for it. */
      const done = new Set<number>();
      let calls: OpenCall[] = [];
      let once = start();

      function start() {
        const mine = ++process;
        // What is left of a process that has died changes nothing any more.
        const alive = <T>(run: () => Promise<T>): Promise<T> =>
          mine === process ? run() : new Promise(() => {});
        const store = open(mine);
        return createOnce({
          clock,
          store: {
            find: (k) => alive(() => store.find(k)),
            begin: (k, claim) => alive(() => store.begin(k, claim)),
            settle: (k, ended) => alive(() => store.settle(k, ended)),
          },
          hooks: { ended: () => {}, notStored: () => {} },
        });
      }

      function ask(resend: number): void {
        const caller = {
          disconnected: new AbortController().signal,
          maxWait: 10_000,
          tooLong: () => new Error("no room"),
        };
        const mine = process;
        const order = {
          key,
          fingerprint: "f",
          about: "",
          resend,
          call: (given: CallSteps) =>
            new Promise<CallResult>((resolve, reject) => {
              const call: OpenCall = { steps: given, stage: "waiting", end: resolve, fail: reject };
              given.signal.addEventListener("abort", () => {
                if (call.stage !== "waiting" && call.stage !== "between") return;
                call.stage = "over";
                reject(given.signal.reason);
              });
              calls.push(call);
            }),
        };
        once.send(order, caller).then(
          ({ answer, replayed }) => {
            if (mine !== process) return;
            if (replayed) replays += 1;
            // The truth: what it names was done.
            expect(done.has(answer["n"] as number)).toBe(true);
          },
          (error: { code?: string; details?: { resend: number } }) => {
            if (mine !== process || error.code !== "outcome_unknown") return;
            unknowns += 1;
            // A request was about to leave at least, and what is not known is never a smaller
            // number of attempts than were made.
            expect(begun).toBeGreaterThan(0);
            expect(error.details?.resend).toBeGreaterThanOrEqual(Math.min(sent, 1));
            told = error.details?.resend ?? 0;
          },
        );
      }

      async function go(each: (typeof steps)[number]): Promise<void> {
        const call = calls.findLast(({ stage }) => stage !== "over");
        switch (each.do) {
          case "ask":
            if (each.resend && told > 0) resends += 1;
            return ask(each.resend ? told : 0);
          case "crash":
            calls = [];
            once = start();
            return;
          case "fill":
          case "free":
            disk.isFull = each.do === "fill";
            return;
          case "time":
            return clock.advance(5_000);
        }
        if (call === undefined) return;
        if (each.do === "leave" && (call.stage === "waiting" || call.stage === "between")) {
          const mine = process;
          call.stage = "starting";
          begun += 1;
          call.steps.starting().then(
            () => {
              if (mine !== process) return;
              // The request leaves.
              const before = disk.held;
              expect(before?.state).toBe("calling");
              sent += 1;
              call.stage = "away";
            },
            (error) => {
              call.stage = "over";
              call.fail(error);
            },
          );
          return;
        }
        if (call.stage !== "away") return;
        if (each.do === "repeat") {
          sent -= 1;
          call.stage = "between";
          return void call.steps.repeating().catch((error) => {
            call.stage = "over";
            call.fail(error);
          });
        }
        if (each.do === "leave") return;
        call.stage = "over";
        if (each.do === "not-done") {
          sent -= 1;
          call.end({ type: "not-done", error: new Error("refused"), why: "" });
        } else if (each.do === "unknown") call.end({ type: "unknown", reason: "reset" });
        else {
          done.add(sent);
          const message = {
            type: "message",
            id: "i",
            wamid: "w",
            status: "pending",
            conversationId: "c",
            reference: undefined,
            metadata: undefined,
          } as const;
          call.end({
            type: "done",
            value: { end: "done", at: 0, answer: { n: sent }, sent: message },
          });
        }
      }

      let explicit = 0;
      for (const each of steps) {
        if (each.do === "ask" && each.resend && told > 0) explicit += 1;
        await go(each);
        await settled();
        // One by itself, and at most one more for each time that somebody said so.
        expect(sent).toBeLessThanOrEqual(1 + explicit);
        if (explicit === 0) expect(done.size).toBeLessThanOrEqual(1);
      }
      if (sent > 1) sentTwice += 1;
      if (disk.held?.state === "done")
        expect(done.has((disk.held.answer as { n: number }).n)).toBe(true);
    }),
    { numRuns: 1_500 },
  );
  // The courses did go to where it matters.
  for (const [what, times] of Object.entries({ sentTwice, replays, resends, unknowns }))
    expect([what, times > 20]).toEqual([what, true]);
});
