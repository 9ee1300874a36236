import { expect, test } from "vitest";
import { limitReached, refused } from "../../../../src/sandbox/api/fault.ts";
import type { AutomationStep } from "../../../../src/sandbox/world/records.ts";
import { createScene, phone } from "./scene.ts";

const waiting: AutomationStep[] = [{ type: "wait", ms: 60_000 }];

test("a run starts in the contact's conversation and makes the contact", () => {
  const scene = createScene();
  const run = scene.automations.start("main", scene.automation(waiting), { phone, name: "Ana", data: { pedido: "7" } });
  expect(run).toMatchObject({ status: "running", data: { pedido: "7" } });
  expect(scene.world.contacts.find("main", phone)).toMatchObject({ name: "Ana" });
  expect(scene.conversation().runId).toBe(run.id);
  expect(scene.world.runs.of("main", run.id)).toBe(run);
});

test("the contact limit and a bad phone are refused as messaging refuses them, and leave no run", () => {
  const scene = createScene();
  const cause = { plan: "escala", resource: "contacts", limit: 1, used: 1 } as const;
  for (const fault of [limitReached(402, "Llegaste al límite.", cause), refused(400, "Teléfono inválido.")]) {
    scene.ahead.contactThrows = fault;
    expect(() => scene.start(waiting)).toThrow(fault);
  }
  expect(scene.world.runs.size).toBe(0);
});

test("a customer's message starts the oldest published automation that waits for one", () => {
  const scene = createScene();
  scene.automation(waiting, { trigger: "customer-message", status: "paused" });
  scene.automation(waiting, { trigger: "incoming-webhook" });
  const oldest = scene.automation([{ type: "send", text: "Recibimos: {{text}}" }], { trigger: "customer-message" });
  scene.automation(waiting, { trigger: "customer-message" });
  const conversation = scene.conversation();
  const message = { ...scene.messaging.send("main", { to: phone, text: "hola" }, "chat"), text: "hola" };
  scene.automations.customerWrote("main", conversation, message);
  scene.clock.advance(1000);
  expect(scene.world.runs.list("main").map(({ automationId }) => automationId)).toEqual([oldest.id]);
  expect(scene.sent.at(-1)).toEqual({ to: phone, text: "Recibimos: hola" });
  // One at a time: the next message finds it in progress.
  scene.automations.customerWrote("main", conversation, message);
  expect(scene.world.runs.size).toBe(1);
});
