import { expect, test } from "vitest";
import type { Wamid } from "../../../../src/model/ids.ts";
import { noFaults } from "../../../../src/sandbox/events/delivery-faults.ts";
import type { PendingPost } from "../../../../src/sandbox/events/posting.ts";
import { createEmit, createPublisher } from "../../../../src/sandbox/events/publisher.ts";
import type { MessageRecord, Plan } from "../../../../src/sandbox/world/records.ts";
import { createWorld } from "../../../../src/sandbox/world/world.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";

const wamid = "wamid.HBgN" as Wamid;

function createSubject({ plan = "escala" as Plan, left = 1_000, drop = false, room = true } = {}) {
  const world = createWorld({ changed() {} });
  const clock = createManualClock(Date.UTC(2026, 10, 21, 12));
  const owned = (id: string) => ({ id, account: "main", createdAt: clock.now() });
  const usage = { month: "2026-11", apiCalls: 0, webhookDeliveries: 0, automationSteps: 0, automationRequests: 0 };
  world.accounts.put({ ...owned("main"), plan, contactLimit: null, isConnected: true, numbers: [], usage });
  const added: PendingPost[] = [];
  const spent: string[] = [];
  const errors: unknown[] = [];
  let made = 0;
  const ids = () => `id-${String(++made).padStart(4, "0")}`;
  const emit = createEmit({
    world,
    ids,
    limits: { spend: (_, what) => spent.push(what) <= left },
    drawFaults: () => ({ ...noFaults, drop }),
    posting: { add: (post) => void added.push(post), hasRoom: () => room },
  });
  const publisher = createPublisher({ clock, ids, emit, onError: (error) => void errors.push(error) });
  return {
    world,
    publisher,
    added,
    spent,
    errors,
    webhook(id: string, events: string[], isEnabled = true) {
      const one = { ...owned(id), url: `http://${id}.example/`, events, secret: "s", signature: { service: "acme" }, isEnabled };
      world.webhooks.put(one);
      return one;
    },
    status: (status: string, errorCode?: string | number) =>
      publisher.messageStatus({ account: "main", wamid, status, errorCode } as MessageRecord),
    bodies: () => world.events.list("main").map(({ body }) => JSON.parse(body)),
    deliveries: () => world.deliveries.list("main").map(({ webhookId, status, reason }) => ({ webhookId, status, reason })),
  };
}

test("message.status, automation.completed and automation.failed have an envelope each", () => {
  const subject = createSubject();
  subject.status("sent");
  subject.status("failed", 131026);
  subject.publisher.automationCompleted("main", "run-1");
  subject.publisher.automationFailed("main", "run-2", "la plantilla ya no está aprobada");
  const createdAt = "2026-11-21T12:00:00.000Z";
  expect(subject.bodies()).toEqual([
    { id: "id-0001", event: "message.status", createdAt, data: { wamid, status: "sent" } },
    { id: "id-0002", event: "message.status", createdAt, data: { wamid, status: "failed", errorCode: 131026 } },
    { id: "id-0003", event: "automation.completed", createdAt, data: { runId: "run-1" } },
    { id: "id-0004", event: "automation.failed", createdAt, data: { runId: "run-2", error: "la plantilla ya no está aprobada" } },
  ]);
  expect(subject.world.events.list("main").map(({ wamid, runId }) => wamid ?? runId)).toEqual([wamid, wamid, "run-1", "run-2"]);
});

test("pending and received make no event; a code left from an earlier failure is not sent with delivered", () => {
  const subject = createSubject();
  subject.status("pending");
  subject.status("received");
  expect(subject.bodies()).toEqual([]);
  subject.status("delivered", 131047);
  expect(subject.bodies()).toMatchObject([{ data: { wamid, status: "delivered" } }]);
  expect(subject.bodies()[0].data).not.toHaveProperty("errorCode");
});

test("each enabled URL that asked for the kind gets one delivery, each counted", () => {
  const subject = createSubject();
  subject.webhook("w1", ["message.status"]);
  subject.webhook("w2", ["automation.*"]);
  subject.webhook("w3", ["*"]);
  subject.webhook("w4", ["*"], false);
  subject.status("sent");
  expect(subject.deliveries()).toEqual(["w1", "w3"].map((webhookId) => ({ webhookId, status: "waiting", reason: null })));
  expect(subject.added.map(({ delivery, line }) => [delivery.webhookId, line])).toEqual([
    ["w1", wamid],
    ["w3", wamid],
  ]);
  expect(subject.spent).toEqual(["webhookDeliveries", "webhookDeliveries"]);
});

test("a dropped delivery has its reason: a fault, or a URL that has too much waiting", () => {
  for (const [subject, reason] of [
    [createSubject({ drop: true }), "fault: drop"],
    [createSubject({ room: false }), "too many deliveries wait for this URL"],
  ] as const) {
    subject.webhook("w1", ["*"]);
    subject.status("sent");
    expect(subject.deliveries()).toEqual([{ webhookId: "w1", status: "dropped", reason }]);
    expect(subject.added).toEqual([]);
    expect(subject.spent).toHaveLength(1);
  }
});

test.each(["trial", "growth"] as const)("the plan %s has no webhooks: nothing is delivered, nothing counted", (plan) => {
  const subject = createSubject({ plan });
  subject.webhook("w1", ["*"]);
  subject.status("sent");
  expect(subject.bodies()).toHaveLength(1);
  expect(subject.deliveries()).toEqual([]);
  expect(subject.spent).toEqual([]);
});

test("any kind can be published; its data say which message or run it is about", () => {
  const subject = createSubject();
  subject.publisher.publish("main", "message.reaction", { wamid, emoji: "👍" });
  subject.publisher.publish("main", "message.reaction", { wamid: 7 }, { runId: "run-1" });
  expect(subject.world.events.list("main").map(({ wamid, runId }) => [wamid, runId])).toEqual([
    [wamid, null],
    [null, "run-1"],
  ]);
});

test("nothing is thrown into who publishes: data that is no JSON is told of elsewhere", () => {
  const subject = createSubject();
  subject.webhook("w1", ["*"]);
  subject.publisher.publish("main", "message.status", { big: 1n });
  subject.publisher.publish("nobody", "message.status", {});
  expect(subject.errors).toHaveLength(1);
  subject.status("sent");
  expect(subject.added).toHaveLength(1);
});
