import { createServer } from "node:net";
import { expect, test } from "vitest";
import { type Happening, startSandbox } from "../../../../src/sandbox/start-sandbox.ts";
import { openDownstream } from "../../../harness/downstream.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";
import { longestWaitMs } from "../../../harness/until.ts";
import { freePort } from "../../../setup/free-port.ts";

test("what is there at first: key, number, templates, automations", async () => {
  await using sandbox = await startSandbox();
  expect(sandbox.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect(sandbox.apiUrl).toBe(`${sandbox.url}/api/v1`);
  expect(sandbox.key).toMatch(/^acme_live_/);
  expect((await sandbox.call("GET", "/me")).body).toMatchObject({
    plan: "escala",
    numbers: [{ phoneNumberId: sandbox.phoneNumberId }],
  });
  const { data } = (await sandbox.call("GET", "/templates")).body as {
    data: { variables: { name: string }[]; category: string }[];
  };
  // Newest first.
  expect(data.map(({ variables }) => variables.map(({ name }) => name))).toEqual([
    ["nombre", "fecha"],
    ["nombre"],
    [],
  ]);
  expect(new Set(data.map(({ category }) => category))).toEqual(new Set(["UTILITY"]));
  const [manual, hooked] = sandbox.automations();
  expect([manual?.trigger, hooked?.trigger]).toEqual(["manual", "incoming-webhook"]);
  expect(
    (await sandbox.call("POST", `/automations/${manual?.id}/runs`, { phone: "+5491155551234" }))
      .status,
  ).toBe(201);
  sandbox.clock.advance(600_000);
  expect(sandbox.runs().map(({ status }) => status)).toEqual(["completed"]);
  expect(sandbox.webhooks()).toEqual([]);
});

test("options: key, secret, plan, service, webhooks", async () => {
  const downstream = await openDownstream();
  await using sandbox = await startSandbox({
    key: "acme_live_of_our_ci",
    secret: "our-secret",
    plan: "enterprise",
    service: "other",
    webhooks: [
      { url: `${downstream.url}/one` },
      { url: `${downstream.url}/two`, events: ["automation.*"], secret: "its-own" },
    ],
  });
  expect([sandbox.key, sandbox.secret, sandbox.plan()]).toEqual([
    "acme_live_of_our_ci",
    "our-secret",
    "enterprise",
  ]);
  expect(
    sandbox.webhooks().map(({ secret, events, signature }) => [secret, events, signature]),
  ).toEqual([
    ["our-secret", ["*"], { service: "other" }],
    ["its-own", ["automation.*"], { service: "other" }],
  ]);
  sandbox.customerWrites("+5491155550001", "Hola");
  await sandbox.call("POST", "/messages", { to: "+5491155550001", text: "Hola" });
  sandbox.clock.advance(600_000);
  await sandbox.idle(longestWaitMs);
  expect(downstream.counts("/one")).toMatchObject({ arrivals: 2, failed: 0 });
  expect(downstream.counts("/two").arrivals).toBe(0);
});

test("the same seed makes the same lives", async () => {
  const livesOf = async (seed: string) => {
    await using sandbox = await startSandbox({ seed, isUnlimited: true });
    await sandbox.control("POST", "/campaigns", {
      name: "lives",
      recipients: 60,
      perSecond: 1_000,
    });
    sandbox.clock.advance(3_600_000);
    return sandbox.messages().map(({ phone, wamid, status }) => [phone, wamid, status]);
  };
  const [one, again, other] = [await livesOf("a"), await livesOf("a"), await livesOf("b")];
  expect(one).toHaveLength(60);
  expect(again).toEqual(one);
  expect(other).not.toEqual(one);
});

test("time beneath it can be given: nothing moves until that does", async () => {
  const clock = createManualClock();
  await using sandbox = await startSandbox({ clock });
  const template = sandbox.templates()[0]?.id;
  await sandbox.call("POST", "/messages", { to: "+5491155550001", template: { id: template } });
  expect(sandbox.messages()[0]?.status).toBe("pending");
  await clock.advance(60_000);
  expect(sandbox.messages()[0]?.status).toBe("delivered");
  expect(sandbox.clock.now()).toBe(clock.now());
});

test("tells what happens: messages, deliveries, runs, refused calls", async () => {
  const downstream = await openDownstream();
  const told: Happening[] = [];
  await using sandbox = await startSandbox({
    onHappening: (one) => told.push(one),
    webhooks: [{ url: downstream.url }],
  });
  await sandbox.call("POST", "/messages", { to: "+5491155550003", text: "Hola" });
  sandbox.customerWrites("+5491155550003", "Hola");
  await sandbox.call("POST", "/messages", { to: "+5491155550003", text: "Hola" });
  sandbox.clock.advance(60_000);
  await sandbox.idle(longestWaitMs);
  expect(told.map((one) => one.what)).toEqual([
    "refused",
    "message",
    "message",
    "message",
    "event",
  ]);
  expect(told[0]).toMatchObject({
    method: "POST",
    path: "/api/v1/messages",
    status: 409,
    error: expect.stringContaining("24 horas"),
  });
  expect(told[4]).toMatchObject({
    event: "message.status",
    url: downstream.url,
    delivery: { status: "delivered", answered: 200 },
  });
});

test("refuses a taken port, a wrong address and too many webhooks with one line, and lets go of everything", async () => {
  const taken = createServer();
  const port = await freePort();
  await new Promise<void>((resolve) => taken.listen(port, "127.0.0.1", resolve));
  await expect(startSandbox({ port })).rejects.toThrow(
    expect.objectContaining({
      name: "SandboxRefused",
      message: `port ${port} on 127.0.0.1 is taken by another process`,
    }),
  );
  await new Promise((resolve) => taken.close(resolve));
  await (await startSandbox({ port })).close();
  await expect(startSandbox({ host: "192.0.2.1" })).rejects.toThrow(
    "192.0.2.1 is no address of this machine",
  );
  const webhooks = Array.from({ length: 6 }, (_, n) => ({ url: `http://127.0.0.1:${port}/${n}` }));
  await expect(startSandbox({ webhooks })).rejects.toThrow(
    expect.objectContaining({ name: "SandboxRefused" }),
  );
  await expect(startSandbox({ plan: "free" as "escala" })).rejects.toThrow(
    expect.objectContaining({ name: "ZodError" }),
  );
});

test("idle says how many wait when they take too long; close does not wait for them", async () => {
  const downstream = await openDownstream();
  downstream.fail("hang");
  const sandbox = await startSandbox({
    webhooks: [{ url: downstream.url }],
    port: await freePort(),
  });
  await sandbox.control("POST", "/events", { event: "custom" });
  await expect(sandbox.idle(30)).rejects.toThrow("1 deliveries still wait after 30 ms");
  const waiting = sandbox.control("GET", "/deliveries/waiting?forMs=600000");
  waiting.catch(() => {});
  await Promise.all([sandbox.close(), sandbox.close()]);
  await expect(fetch(sandbox.url)).rejects.toThrow();
});
