import { type Answer, usualEventRetry } from "../../../../src/sandbox/events/after-try.ts";
import { type DeliveryFaults, noFaults } from "../../../../src/sandbox/events/delivery-faults.ts";
import type { PostOrder } from "../../../../src/sandbox/events/poster.ts";
import { createPosting, pendingPostOf } from "../../../../src/sandbox/events/posting.ts";
import { createRandom } from "../../../../src/sandbox/ids.ts";
import type { DeliveryRecord } from "../../../../src/sandbox/world/records.ts";
import { createWorld } from "../../../../src/sandbox/world/world.ts";
import { createManualClock, settled } from "../../../harness/manual-clock.ts";

export const ok: Answer = { kind: "answered", status: 200, retryAfter: undefined };
export const failing: Answer = { kind: "answered", status: 500, retryAfter: undefined };

/** Posting over a poster that answers as told and notes when; each webhook and event is made on the way. */
export function createSubject({ speed = 1, mostWaiting = 100 } = {}) {
  const clock = createManualClock();
  const start = clock.now();
  const world = createWorld({ changed() {} });
  const posts: { at: number; what: string }[] = [];
  let answer: (order: PostOrder) => Answer | Promise<Answer> = () => ok;
  const cuts: ((answer: Answer) => void)[] = [];
  const create = () =>
    createPosting({
      world,
      clock,
      baseClock: clock,
      random: createRandom(1),
      retry: usualEventRetry,
      speed,
      atOnce: 4,
      mostWaiting,
      onError(error) {
        throw error;
      },
      poster: {
        async post(order) {
          posts.push({ at: clock.now() - start, what: `${order.eventId}${order.signature === "wrong" ? " wrong" : ""}` });
          return Promise.race([answer(order), new Promise<Answer>((resolve) => cuts.push(resolve))]);
        },
        forget() {},
        async close() {
          for (const cut of cuts) cut({ kind: "cut" });
          await settled(1);
        },
      },
    });
  const posting = create();
  const owned = (id: string) => ({ id, account: "main", createdAt: start });
  const addWebhook = (id: string) =>
    world.webhooks.put({ ...owned(id), url: "http://x.example/", events: [], secret: "", signature: {}, isEnabled: true });
  addWebhook("w1");
  const record = (eventId: string, line: string | null, more: Partial<DeliveryRecord> = {}) => {
    const event = { ...owned(eventId), event: "message.status", wamid: line, runId: null, body: JSON.stringify({ id: eventId, data: {} }) };
    world.events.put(event);
    const state = { status: "waiting", reason: null, tries: 0, answered: null, nextAt: start } as const;
    const delivery: DeliveryRecord = { ...owned(`${eventId}/d`), eventId, webhookId: "w1", ...state, ...more };
    world.deliveries.put(delivery);
    return { event, delivery };
  };
  return {
    clock,
    start,
    world,
    posting,
    posts,
    create,
    record,
    answerWith(next: typeof answer) {
      answer = next;
    },
    async add(eventId: string, line: string | null = null, faults: Partial<DeliveryFaults> = {}) {
      const { event, delivery } = record(eventId, line);
      posting.add(pendingPostOf(delivery, event, { ...noFaults, ...faults }));
      await settled(2);
      return delivery;
    },
    whats: () => posts.map(({ what }) => what),
  };
}
