import { join } from "node:path";
import { expect, test } from "vitest";
import {
  type Sandbox,
  SandboxRefused,
  startSandbox,
} from "../../../../src/sandbox/start-sandbox.ts";
import type { AutomationStep } from "../../../../src/sandbox/world.ts";
import { openDownstream } from "../../../harness/downstream.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";
import { usageOf } from "../../../harness/sandbox-usage.ts";
import { tempFolder } from "../../../harness/temp-folder.ts";
import { longestWaitMs, until } from "../../../harness/until.ts";
import { startTestServer } from "../test-server.ts";

const stateFile = (): string => join(tempFolder(), "sandbox.db");

const send = (sandbox: Sandbox, to: string) =>
  sandbox.call("POST", "/messages", { to, template: { id: sandbox.templates()[0]?.id as string } });

test("everything goes on after a restart: records, key, secret, usage, clock, lives, ids", async () => {
  const file = stateFile();
  const clock = createManualClock();
  const first = await startSandbox({ file, clock, seed: "state" });
  await first.call("POST", "/contacts", {
    phone: "+5491155557777",
    name: "Ana",
    attributes: { fecha: "hoy" },
  });
  await send(first, "+5491155550001");
  first.clock.advance(3_600_000);
  await send(first, "+5491155550001");
  const { used } = (await usageOf(first)).apiCalls;
  const [{ body: contacts }, { body: webhooks }] = [
    await first.call("GET", "/contacts"),
    await first.call("GET", "/templates"),
  ];
  const [messages, now] = [first.messages(), first.clock.now()];
  expect(messages.map(({ status }) => status)).toEqual(["delivered", "pending"]);
  await first.close();

  await using second = await startSandbox({ file, clock, seed: "state" });
  expect([second.key, second.secret, second.phoneNumberId]).toEqual([
    first.key,
    first.secret,
    first.phoneNumberId,
  ]);
  expect(second.messages()).toEqual(messages);
  expect(second.clock.now()).toBe(now);
  expect((await second.call("GET", "/contacts")).body).toEqual(contacts);
  expect((await second.call("GET", "/templates")).body).toEqual(webhooks);
  // Two more than then: the lists just asked for, there and here.
  expect((await usageOf(second)).apiCalls.used).toBe(used + 4);
  await clock.advance(60_000);
  expect(second.messages().map(({ status }) => status)).toEqual(["delivered", "delivered"]);
  const third = (await send(second, "+5491155550001")).body as { id: string; wamid: string };
  expect(messages.every(({ id, wamid }) => third.id > id && third.wamid !== wamid)).toBe(true);
});

test("a clock that stood still stands still again; what was due while the sandbox was off happens at once", async () => {
  const file = stateFile();
  const clock = createManualClock();
  const first = await startSandbox({ file, clock });
  await send(first, "+5491155550001");
  first.clock.freeze();
  const now = first.clock.now();
  await first.close();
  await clock.advance(86_400_000);
  const second = await startSandbox({ file, clock });
  expect([second.clock.isFrozen, second.clock.now()]).toEqual([true, now]);
  expect(second.messages()[0]?.status).toBe("pending");
  second.clock.thaw();
  await second.close();
  await clock.advance(86_400_000);
  await using third = await startSandbox({ file, clock });
  await clock.advance(1);
  expect(third.messages()[0]?.status).toBe("delivered");
  expect(third.clock.now()).toBe(now + 86_400_001);
});

test("a delivery that waited is posted after the restart, and options add what is not there", async () => {
  const file = stateFile();
  const downstream = await openDownstream();
  downstream.fail({ status: 500 });
  const first = await startSandbox({ file, webhooks: [{ url: downstream.url }] });
  await first.control("POST", "/events", { event: "custom", data: { n: 1 } });
  await expect(first.idle(50)).rejects.toThrow("1 deliveries");
  await first.close();
  downstream.recover();
  await using second = await startSandbox({
    file,
    key: "acme_live_another",
    secret: "another-secret",
    plan: "enterprise",
    webhooks: [{ url: downstream.url }, { url: `${downstream.url}/more` }],
  });
  second.clock.advance(86_400_000);
  await second.idle(longestWaitMs);
  expect(downstream.counts().taken).toBe(1);
  expect(second.webhooks().map(({ url }) => url)).toEqual([
    downstream.url,
    `${downstream.url}/more`,
  ]);
  expect((await second.control("GET", "/keys")).body).toMatchObject({
    data: [{ key: first.key }, { key: "acme_live_another" }],
  });
  expect(second.webhooks().map(({ secret }) => secret)).toEqual([
    "another-secret",
    "another-secret",
  ]);
  expect([second.key, second.plan()]).toEqual(["acme_live_another", "enterprise"]);
});

test("another secret must be in the encodings of the signatures that it is for; the text does not quote it", async () => {
  const file = stateFile();
  const webhooks = [
    { url: "http://127.0.0.1:9/hook", signature: { preset: "standard-webhooks" as const } },
  ];
  await (await startSandbox({ file, webhooks })).close();
  const restarted = startSandbox({ file, secret: "whsec_not base64!" });
  await expect(restarted).rejects.toThrow(
    new SandboxRefused("webhooks: the secret is not base64 (after whsec_)"),
  );
});

test("a campaign goes on after a restart, and so do its replies", async () => {
  const file = stateFile();
  const clock = createManualClock();
  // Other seeds can choose phone numbers that refuse messages.
  const first = await startSandbox({ file, clock, seed: "half" });
  await first.control("POST", "/campaigns", { name: "half", recipients: 100, perSecond: 10 });
  await clock.advance(5_000);
  const sent = first.messages();
  expect(sent.length).toBeGreaterThan(20);
  expect(sent.length).toBeLessThan(80);
  const [answered, silent] = sent.map(({ phone }) => phone) as [string, string];
  first.customerWrites(answered, "sí");
  await first.close();
  await using second = await startSandbox({ file, clock, seed: "half" });
  second.customerWrites(answered, "¿hola?");
  second.customerWrites(silent, "sí");
  await clock.advance(600_000);
  expect((await second.call("GET", "/campaigns")).body).toMatchObject({
    data: [{ sent: 100, deliveries: 100, replies: 2 }],
  });
  expect(new Set(second.messages().map(({ phone }) => phone)).size).toBe(100);
  expect((await second.control("GET", "")).body).toMatchObject({ counts: { recipients: 0 } });
});

test("runs go on after a restart: a wait half over, a message on its way, a request without its answer", async () => {
  const file = stateFile();
  const clock = createManualClock();
  // The first is cut off in the midst of its answer.
  const receiver = await startTestServer(
    (response, _, count) => void (count === 1 ? response.write("gra") : response.end()),
  );
  const first = await startSandbox({ file, clock });
  const start = async (phone: string, step: AutomationStep) => {
    const { body } = await first.control("POST", "/automations", { name: "one", steps: [step] });
    await first.call("POST", `/automations/${(body as { id: string }).id}/runs`, { phone });
  };
  await start("+5491155550001", { type: "wait", ms: 3_600_000 });
  await clock.advance(1_800_000);
  await start("+5491155550009", { type: "send", templateId: first.templates()[0]?.id ?? "" });
  await start("+5491155551234", { type: "request", url: receiver.url, body: {} });
  await clock.advance(150);
  await until("the request", () => receiver.seen.length === 1);
  await first.close();
  await using second = await startSandbox({ file, clock });
  const statuses = () => second.runs().map(({ status }) => status);
  expect(statuses()).toEqual(["running", "running", "running"]);
  await clock.advance(100);
  await until("the second request", () => receiver.seen.length === 2);
  await until("its exit", () => second.runs()[2]?.left.length === 0);
  await clock.advance(60_000);
  expect(statuses()).toEqual(["running", "completed", "completed"]);
  await clock.advance(1_800_000);
  expect(statuses()).toEqual(["completed", "completed", "completed"]);
});
