import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type Sandbox, startSandbox } from "../../../../src/sandbox/start-sandbox.ts";
import { openDownstream } from "../../../harness/downstream.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";
import { usageOf } from "../../../harness/sandbox-usage.ts";
import { longestWaitMs } from "../../../harness/until.ts";

function stateFile(): string {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-state-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "sandbox.db");
}

const send = (sandbox: Sandbox, to: string) =>
  sandbox.call("POST", "/messages", { to, template: { id: sandbox.templates()[0]?.id as string } });

test("everything goes on after a restart: records, key, secret, usage, clock, lives, ids", async () => {
  const file = stateFile();
  const clock = createManualClock();
  const first = await startSandbox({ file, clock, seed: "state" });
  await first.call("POST", "/contacts", { phone: "+5491155557777", name: "Ana", attributes: { fecha: "hoy" } });
  await send(first, "+5491155550001");
  first.clock.advance(3_600_000);
  await send(first, "+5491155550001");
  const { used } = (await usageOf(first)).apiCalls;
  const [{ body: contacts }, { body: webhooks }] = [await first.call("GET", "/contacts"), await first.call("GET", "/templates")];
  const [messages, now] = [first.messages(), first.clock.now()];
  expect(messages.map(({ status }) => status)).toEqual(["delivered", "pending"]);
  await first.close();

  await using second = await startSandbox({ file, clock, seed: "state" });
  expect([second.key, second.secret, second.phoneNumberId]).toEqual([first.key, first.secret, first.phoneNumberId]);
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
  expect(second.webhooks().map(({ url }) => url)).toEqual([downstream.url, `${downstream.url}/more`]);
  expect((await second.control("GET", "/keys")).body).toMatchObject({ data: [{ key: first.key }, { key: "acme_live_another" }] });
  expect(second.webhooks().map(({ secret }) => secret)).toEqual(["another-secret", "another-secret"]);
  expect([second.key, second.plan()]).toEqual(["acme_live_another", "enterprise"]);
});

test("finishes a campaign and a run after a restart", async () => {
  const file = stateFile();
  const clock = createManualClock();
  // Other seeds can choose phone numbers that refuse messages.
  const first = await startSandbox({ file, clock, seed: "half" });
  await first.control("POST", "/campaigns", { name: "half", recipients: 100, perSecond: 10 });
  await first.call("POST", `/automations/${first.automations()[0]?.id}/runs`, { phone: "+5491155550001" });
  await clock.advance(5_000);
  const sent = first.messages().filter(({ origin }) => origin === "campaign").length;
  expect(sent).toBeGreaterThan(20);
  expect(sent).toBeLessThan(80);
  await first.close();
  await using second = await startSandbox({ file, clock, seed: "half" });
  await clock.advance(600_000);
  expect(second.messages().filter(({ origin }) => origin === "campaign")).toHaveLength(100);
  expect(second.runs().map(({ status }) => status)).toEqual(["completed"]);
});
