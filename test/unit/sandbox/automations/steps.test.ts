import { expect, test } from "vitest";
import { refused } from "../../../../src/sandbox/api/fault.ts";
import { createAutomations } from "../../../../src/sandbox/automations/automations.ts";
import { createScene, phone } from "./scene.ts";

const hour = 3_600_000;

test("text and template go out with the run's data filled in, each after the one before left", () => {
  const scene = createScene();
  const run = scene.start(
    [
      { type: "send", text: "Hola {{nombre}}, pedido {{ pedido }}{{nada}}." },
      { type: "send", templateId: "t1", variables: { pedido: "N.º {{pedido}}", fecha: "{{fecha}}" } },
    ],
    { nombre: "Ana", pedido: "7" },
  );
  expect(scene.sent).toEqual([]);
  scene.clock.advance(10_000);
  expect(scene.sent).toEqual([{ to: phone, text: "Hola Ana, pedido 7." }]);
  scene.move(scene.lastMessage(), "sent");
  scene.clock.advance(10_000);
  // `fecha` came out empty: left out, so that the template's fallback takes its place.
  expect(scene.sent[1]).toEqual({ to: phone, template: { id: "t1", variables: { pedido: "N.º 7" } } });
  expect(scene.published).toEqual([]);
  scene.move(scene.lastMessage(), "sent");
  scene.clock.advance(10_000);
  expect(scene.published).toEqual([{ event: "completed", runId: run.id }]);
  expect(run).toMatchObject({ status: "completed", error: null, left: [] });
  expect(scene.conversation().runId).toBeNull();
});

test.each([
  ["the 24-hour window is closed", 409, "Pasaron más de 24 horas: usá una plantilla."],
  ["the template is no longer approved", 409, "La plantilla no está aprobada."],
  ["the template no longer exists", 404, "La plantilla ya no existe."],
  ["the provider rejected it", 502, "El proveedor rechazó el mensaje: falta un medio de pago."],
] as const)("a run fails when %s, with the same text", (_, status, text) => {
  const scene = createScene();
  const run = scene.start([{ type: "send", templateId: "t1" }]);
  scene.ahead.sendThrows = refused(status, text);
  scene.clock.advance(1000);
  expect(scene.published).toEqual([{ event: "failed", runId: run.id, error: text }]);
  expect(run).toMatchObject({ status: "failed", error: text });
  expect(scene.conversation().runId).toBeNull();
});

test("a number without an account fails the run, which has waited for it", () => {
  const scene = createScene();
  scene.ahead.fate = ["sent", "failed"];
  const run = scene.start([{ type: "send", text: "hola" }]);
  scene.clock.advance(1000);
  scene.move(scene.lastMessage(), "sent");
  scene.clock.advance(60_000);
  expect(run.status).toBe("running");
  scene.move(scene.lastMessage(), "failed", 131026);
  expect(scene.published).toEqual([
    { event: "failed", runId: run.id, error: "El teléfono no tiene una cuenta en la red (código 131026)." },
  ]);
  // A second word on the same message says nothing more.
  scene.move(scene.lastMessage(), "failed", 131026);
  scene.clock.advance(60_000);
  expect(scene.published).toHaveLength(1);
});

test("a message that fails while the run is further on fails it too; another run's or the chat's does not", () => {
  const scene = createScene();
  scene.start([{ type: "send", text: "uno" }]);
  scene.clock.advance(1000);
  const older = scene.lastMessage();
  scene.move(older, "delivered");
  scene.clock.advance(1000);
  expect(scene.published).toHaveLength(1);

  const run = scene.start([
    { type: "send", text: "dos" },
    { type: "wait", ms: hour },
    { type: "send", text: "tres" },
  ]);
  scene.clock.advance(1000);
  const own = scene.lastMessage();
  scene.move(own, "sent");
  scene.clock.advance(1000);
  scene.move(older, "failed", 131047);
  scene.move(scene.messaging.send("main", { to: phone, text: "chat" }, "chat"), "failed", 131047);
  expect(run.status).toBe("running");
  scene.move(own, "failed", "131049");
  expect(run).toMatchObject({ status: "failed", error: "El mensaje no se pudo entregar (código 131049)." });
  scene.clock.advance(2 * hour);
  expect(scene.sent.map(({ text }) => text)).not.toContain("tres");
});

test("a message that stays pending for ever holds nothing up", () => {
  const scene = createScene();
  scene.ahead.fate = [];
  scene.start([{ type: "send", text: "hola" }]);
  scene.clock.advance(1000);
  expect(scene.published).toMatchObject([{ event: "completed" }]);
});

test("a wait is as long as it says, divided by the speed", () => {
  for (const speed of [1, 50]) {
    const scene = createScene({ speed });
    const run = scene.start([{ type: "wait", ms: hour }]);
    // The step, the wait, and the end: a moment passes before each.
    scene.clock.advance(hour / speed + 200 / speed - 1);
    expect(run.status).toBe("running");
    scene.clock.advance(1);
    expect(run.status).toBe("completed");
  }
});

test("a run can fail by its author's word", () => {
  const scene = createScene();
  const run = scene.start(
    [
      { type: "fail", error: "Sin stock de {{producto}}" },
      { type: "send", text: "no" },
    ],
    { producto: "mate" },
  );
  scene.clock.advance(1000);
  expect(scene.published).toEqual([{ event: "failed", runId: run.id, error: "Sin stock de mate" }]);
  expect(scene.sent).toEqual([]);
});

test("an automation of no steps completes, though not before its start was answered", () => {
  const scene = createScene();
  scene.start([]);
  expect(scene.published).toEqual([]);
  scene.clock.advance(1000);
  expect(scene.published).toMatchObject([{ event: "completed" }]);
});

test("a run keeps the steps it began with", () => {
  const scene = createScene();
  const automation = scene.automation([{ type: "send", text: "antes" }]);
  scene.automations.start("main", automation, { phone, data: {} });
  automation.steps.splice(0, 1, { type: "send", text: "después" });
  automation.status = "paused";
  scene.clock.advance(1000);
  expect(scene.sent).toEqual([{ to: phone, text: "antes" }]);
});

test("within 24 hours of a human's reply a run sends nothing and says so; after that it sends", () => {
  const scene = createScene();
  scene.conversation().humanRepliedAt = scene.clock.now();
  const stopped = scene.start([{ type: "send", text: "hola" }]);
  scene.clock.advance(1000);
  expect(stopped).toMatchObject({ status: "failed", error: expect.stringContaining("24 horas") });
  expect(scene.sent).toEqual([]);
  scene.start([
    { type: "wait", ms: 24 * hour },
    { type: "send", text: "hola" },
  ]);
  scene.clock.advance(25 * hour);
  expect(scene.sent).toEqual([{ to: phone, text: "hola" }]);
});

test("each step counts, and the one past the month's quota fails the run with a text that says so", () => {
  const scene = createScene();
  scene.quota.automationSteps = 3;
  const run = scene.start([
    { type: "wait", ms: 1 },
    { type: "wait", ms: 1 },
    { type: "wait", ms: 1 },
    { type: "send", text: "no" },
  ]);
  scene.clock.advance(10_000);
  expect(scene.spent.automationSteps).toBe(3);
  expect(run.error).toMatch(/200000 pasos de automatizaciones/);
  expect(scene.published).toEqual([{ event: "failed", runId: run.id, error: run.error }]);
  expect(scene.sent).toEqual([]);
});

test("a restart takes runs up where they were: a wait half over, a message on its way, one that left meanwhile", () => {
  const scene = createScene();
  const asleep = scene.start([{ type: "wait", ms: hour }], {}, "+5491155550001");
  const open = scene.start([{ type: "send", text: "a" }], {}, "+5491155550002");
  const left = scene.start([{ type: "send", text: "b" }], {}, "+5491155550003");
  scene.clock.advance(hour / 2);
  const [first, second] = scene.world.messages.list("main");
  if (first === undefined || second === undefined) throw new Error("two messages were sent");

  // As a state file gives it back: nothing but JSON, and nobody planned.
  const fresh = createScene({ base: scene.base });
  fresh.clock.advance(hour / 2);
  for (const kind of ["contacts", "conversations", "automations", "messages", "runs"] as const) {
    for (const record of scene.world[kind].all()) fresh.world[kind].put(JSON.parse(JSON.stringify(record)));
  }
  const status = (id: string) => fresh.world.runs.get(id)?.status;
  const moved = fresh.world.messages.get(second.id);
  if (moved !== undefined) Object.assign(moved, { status: "delivered", future: [] });
  const again = createAutomations({ ...fresh.parts });
  again.resume();
  fresh.clock.advance(1000);
  expect([status(asleep.id), status(open.id), status(left.id)]).toEqual(["running", "running", "completed"]);
  const onItsWay = fresh.world.messages.get(first.id);
  if (onItsWay === undefined) throw new Error("the message came back");
  onItsWay.status = "sent";
  onItsWay.future = [];
  again.messageChanged(onItsWay);
  fresh.clock.advance(1000);
  expect(status(open.id)).toBe("completed");
  expect(status(asleep.id)).toBe("running");
  fresh.clock.advance(hour / 2);
  expect(status(asleep.id)).toBe("completed");
  expect(fresh.conversation("+5491155550001").runId).toBeNull();
});
