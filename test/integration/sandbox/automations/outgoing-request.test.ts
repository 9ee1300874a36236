import { createHmac } from "node:crypto";
import type { ServerResponse } from "node:http";
import { afterEach, expect, test } from "vitest";
import type { AutomationStep } from "../../../../src/sandbox/world/records.ts";
import { settled } from "../../../harness/manual-clock.ts";
import { until } from "../../../harness/until.ts";
import { createScene, phone } from "../../../unit/sandbox/automations/scene.ts";
import { startTestServer } from "../test-server.ts";

const scenes: ReturnType<typeof createScene>[] = [];
afterEach(async () => {
  for (const scene of scenes.splice(0)) await scene.automations.close();
});

function newScene(...options: Parameters<typeof createScene>) {
  const scene = createScene(...options);
  scenes.push(scene);
  return scene;
}

/** Which exit was taken shows in the text with which the run fails. */
const request = (url: string, body: unknown = {}): AutomationStep => ({
  type: "request",
  url,
  body,
  onSuccess: [{ type: "fail", error: "success exit" }],
  onError: [{ type: "fail", error: "error exit" }],
});

/** Runs one request step to its exit, which is taken 100 ms of the sandbox's time after it is known. */
async function exitOf(scene: ReturnType<typeof createScene>, step: AutomationStep, meanwhile: () => Promise<void> = async () => {}) {
  const run = scene.start([step]);
  scene.clock.advance(100);
  await meanwhile();
  await until("the exit", () => run.left[0]?.type === "fail");
  scene.clock.advance(1000);
  return run.error;
}

test("the author's body is posted with the run's data filled in, signed over the raw body with the automation's token", async () => {
  await using receiver = await startTestServer((response) => response.end("gracias"));
  const scene = newScene();
  const step = request(`${receiver.url}/pedidos?de={{x}}`, { pedido: "{{pedido}}", lineas: ["¡{{nombre}}!", 2], nada: null });
  const automation = scene.automation([step], { token: "ats_0123456789" });
  const run = scene.automations.start("main", automation, { phone, data: { pedido: "7", nombre: "Ñandú" } });
  scene.clock.advance(100);
  await until("the exit", () => run.left[0]?.type === "fail");
  const [seen] = receiver.seen;
  if (seen === undefined) throw new Error("nothing came");
  expect(seen).toMatchObject({ method: "POST", url: "/pedidos?de={{x}}" });
  expect(seen.headers["content-type"]).toBe("application/json");
  expect(JSON.parse(seen.body.toString())).toEqual({ pedido: "7", lineas: ["¡Ñandú!", 2], nada: null });
  expect(seen.headers["x-acme-signature"]).toBe(createHmac("sha256", "ats_0123456789").update(seen.body).digest("hex"));
  expect(receiver.seen).toHaveLength(1);
});

test("the signature has the automation's axes, and the time that is signed is the machine's", async () => {
  await using receiver = await startTestServer((response) => response.end());
  const scene = newScene();
  // A world three days ahead: receivers know nothing of that.
  scene.clock.advance(3 * 24 * 3_600_000);
  const signature = {
    header: "x-sig",
    algorithm: "sha512",
    encoding: "base64",
    timestampHeader: "x-time",
    content: "{timestamp}.{body}",
  } as const;
  const automation = scene.automation([request(receiver.url)], { token: "ats_k", signature });
  const run = scene.automations.start("main", automation, { phone, data: {} });
  scene.clock.advance(100);
  await until("the exit", () => run.left[0]?.type === "fail");
  const [seen] = receiver.seen;
  const time = String(Math.floor(scene.base.now() / 1000));
  expect(seen?.headers["x-time"]).toBe(time);
  const expected = createHmac("sha512", "ats_k")
    .update(`${time}.`)
    .update(seen?.body ?? "")
    .digest("base64");
  expect(String(seen?.headers["x-sig"]).replace(/^sha512=/, "")).toBe(expected);
});

test.each([
  [200, "success exit"],
  [204, "success exit"],
  [299, "success exit"],
  [301, "error exit"],
  [404, "error exit"],
  [500, "error exit"],
] as const)("%i takes the %s", async (status, exit) => {
  await using receiver = await startTestServer((response) => response.writeHead(status, { location: "/elsewhere" }).end());
  expect(await exitOf(newScene(), request(receiver.url))).toBe(exit);
  // Neither followed nor tried again.
  expect(receiver.seen).toHaveLength(1);
});

test("a receiver that resets, or is not there, or whose URL is none, takes the error exit", async () => {
  await using receiver = await startTestServer((response) => response.destroy());
  expect(await exitOf(newScene(), request(receiver.url))).toBe("error exit");
  expect(await exitOf(newScene(), request("http://127.0.0.1:1/"))).toBe("error exit");
  expect(await exitOf(newScene(), request("nowhere"))).toBe("error exit");
});

test.each([
  ["that hangs", () => {}],
  ["that drips", (response: ServerResponse) => void response.writeHead(200).write("…")],
])("a receiver %s has 10 s of the machine's time, whatever the speed, then the error exit", async (_, answer) => {
  await using receiver = await startTestServer(answer);
  const scene = newScene({ speed: 1000 });
  const run = scene.start([request(receiver.url)]);
  scene.clock.advance(100);
  await until("the request", () => receiver.seen.length > 0);
  // The sandbox's time may jump: the receiver's does not.
  scene.clock.advance(3_600_000);
  await scene.base.advance(9_999);
  expect(run.left[0]?.type).toBe("request");
  await scene.base.advance(1);
  await until("the exit", () => run.left[0]?.type === "fail");
  scene.clock.advance(1000);
  expect(run.error).toBe("error exit");
});

test("an answer at the last moment is in time", async () => {
  let late: ServerResponse | undefined;
  await using receiver = await startTestServer((response) => {
    late = response;
  });
  const scene = newScene();
  const exit = await exitOf(scene, request(receiver.url), async () => {
    await until("the request", () => late !== undefined);
    await scene.base.advance(9_999);
    late?.end();
  });
  expect(exit).toBe("success exit");
});

test("an exit that leads nowhere goes on with the next step", async () => {
  await using receiver = await startTestServer((response) => response.writeHead(500).end());
  const scene = newScene();
  const run = scene.start([
    { type: "request", url: receiver.url, body: {} },
    { type: "send", text: "sigue" },
  ]);
  scene.clock.advance(100);
  await until("the exit", () => run.left[0]?.type === "send");
  scene.clock.advance(1000);
  expect(scene.sent).toEqual([{ to: phone, text: "sigue" }]);
});

test("each request counts as one step and one request; past the month's quota none is made and the run says so", async () => {
  await using receiver = await startTestServer((response) => response.end());
  const scene = newScene();
  scene.quota.automationRequests = 1;
  await exitOf(scene, request(receiver.url));
  const run = scene.start([request(receiver.url)]);
  scene.clock.advance(1000);
  expect(run.error).toMatch(/50000 pedidos HTTP/);
  expect(scene.published.at(-1)).toEqual({ event: "failed", runId: run.id, error: run.error });
  expect(receiver.seen).toHaveLength(1);
  expect(scene.spent).toMatchObject({ automationRequests: 1, automationSteps: 3 });
});

test("a token that is no key for the signature fails the run with a text that says so", async () => {
  await using receiver = await startTestServer((response) => response.end());
  const scene = newScene();
  const automation = scene.automation([request(receiver.url)], { signature: { service: "acme", secretEncoding: "hex" } });
  const run = scene.automations.start("main", automation, { phone, data: {} });
  scene.clock.advance(100);
  await until("the end", () => run.status === "failed");
  expect(run.error).toMatch(/firmar/);
  expect(receiver.seen).toEqual([]);
});

test("closing ends requests under way and decides nothing; the same run asks again after a restart", async () => {
  await using receiver = await startTestServer((response, _, count) => void (count > 1 && response.end()));
  const scene = newScene();
  const run = scene.start([request(receiver.url)]);
  scene.clock.advance(100);
  await until("the request", () => receiver.seen.length === 1);
  await scene.automations.close();
  expect(run).toMatchObject({ status: "running", left: [{ type: "request" }] });
  expect(scene.base.pending()).toBe(0);

  const again = newScene({ base: scene.base });
  for (const kind of ["contacts", "conversations", "automations", "runs"] as const) {
    for (const record of scene.world[kind].all()) again.world[kind].put(JSON.parse(JSON.stringify(record)));
  }
  again.automations.resume();
  again.clock.advance(100);
  await until("the second request", () => receiver.seen.length === 2);
  await until("the exit", () => again.world.runs.get(run.id)?.left[0]?.type === "fail");
});

test("closing in the midst of an answer decides nothing either", async () => {
  await using receiver = await startTestServer((response) => void response.writeHead(200).write("gra"));
  const scene = newScene();
  const run = scene.start([request(receiver.url)]);
  scene.clock.advance(100);
  await until("the request", () => receiver.seen.length === 1);
  // The head of the answer comes in a moment of its own; whether it is there yet makes no difference.
  await settled();
  await scene.automations.close();
  await settled();
  scene.clock.advance(1000);
  expect(run).toMatchObject({ status: "running", left: [{ type: "request" }] });
});
