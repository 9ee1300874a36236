import { createHmac } from "node:crypto";
import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import type { AutomationStep, EventRecord, RunRecord } from "../../../../src/sandbox/world.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";
import { until } from "../../../harness/until.ts";
import {
  type Account,
  day,
  hour,
  minute,
  type Sent,
  type Service,
  second,
  serviceOfFile,
  startService,
} from "../conformance/harness.ts";
import { callPlainly } from "../conformance/plain-http.ts";
import { startTestServer } from "../test-server.ts";

const service = await serviceOfFile();

interface Setup {
  readonly on?: Service;
  readonly account?: Account;
  /** Has written just now. */
  readonly phone?: string;
  readonly data?: Readonly<Record<string, string>>;
  readonly signature?: object;
}

async function start(
  steps: readonly AutomationStep[],
  { on = service, phone = on.phone("0001"), data = {}, ...more }: Setup = {},
) {
  const account = more.account ?? (await on.account());
  await account.customerWrites(phone);
  const { id, token } = await account.automation({
    steps,
    ...(more.signature && { signature: more.signature }),
  });
  const { body } = await account.api<{ runId: string }>("POST", `/automations/${id}/runs`, {
    phone,
    data,
  });
  return {
    account,
    phone,
    id,
    token,
    run: async () => (await account.box<RunRecord>("GET", `/runs/${body.runId}`)).body,
    sent: async () =>
      (await account.messages())
        .filter(({ origin }) => origin === "automation")
        .map(({ text }) => text),
    /** What was reported of the run. */
    async reported() {
      const { data: events } = (await account.box<{ data: EventRecord[] }>("GET", "/events")).body;
      const own = events.filter(({ runId }) => runId === body.runId);
      return own.map((event) => [event.event, JSON.parse(event.body).data.error]);
    },
  };
}

test("text and template go out with the run's data filled in, each after the one before left", async () => {
  const account = await service.account();
  const templateId = await account.template({
    body: "{{pedido}} {{fecha}}",
    variables: ["pedido", "fecha"].map((name) => ({ name, example: "?", fallback: "hoy" })),
  });
  // Slow: it leaves after two seconds at the soonest.
  const phone = service.phone("0009");
  const steps = [
    { type: "send", text: "Hola {{nombre}}, pedido {{ pedido }}{{nada}}." },
    { type: "send", templateId, variables: { pedido: "N.º {{pedido}}", fecha: "{{fecha}}" } },
  ] as const;
  const { run, sent, reported } = await start(steps, {
    account,
    phone,
    data: { nombre: "Ana", pedido: "7" },
  });
  expect(await sent()).toEqual([]);
  await service.advance(2 * second);
  expect(await sent()).toEqual(["Hola Ana, pedido 7."]);
  await service.advance(minute);
  // `fecha` came out empty, so the template's fallback took its place.
  expect(await sent()).toEqual(["Hola Ana, pedido 7.", "N.º 7 hoy"]);
  expect(await reported()).toEqual([["automation.completed", undefined]]);
  expect(await run()).toMatchObject({ status: "completed", error: null, left: [] });
  expect((await account.box("GET", `/contacts/${phone}`)).body).toMatchObject({
    conversation: { runId: null },
  });
});

test("a run fails with the text with which its send is refused", async () => {
  const account = await service.account();
  const [deleted, rejected] = [
    await account.template(),
    await account.template({ status: "rejected" }),
  ];
  await account.box("DELETE", `/templates/${deleted}`);
  const approved = await account.template();
  for (const [templateId, ending] of [
    [deleted, "0001"],
    [rejected, "0001"],
    [approved, "0005"],
  ] as const) {
    const { phone, run, reported } = await start([{ type: "send", templateId }], {
      account,
      phone: service.phone(ending),
    });
    await service.advance(second);
    const { error } = (
      await account.api<{ error: string }>("POST", "/messages", {
        to: phone,
        template: { id: templateId },
      })
    ).body;
    expect(await reported()).toEqual([["automation.failed", error]]);
    expect(await run()).toMatchObject({ status: "failed", error });
  }
  const late = await start([
    { type: "wait", ms: 25 * hour },
    { type: "send", text: "hola" },
  ]);
  await service.advance(26 * hour);
  expect((await late.run()).error).toMatch(/24 horas/);
});

test("a run waits for a message that will fail, and fails with it, once", async () => {
  for (const [ending, error] of [
    ["0000", "El teléfono no tiene una cuenta en la red (código 131026)."],
    ["0004", "El mensaje no se pudo entregar (código 131047)."],
  ] as const) {
    const { run, reported, account } = await start([{ type: "send", text: "hola" }], {
      phone: service.phone(ending),
    });
    await service.advance(200);
    expect(await run()).toMatchObject({ status: "running", left: [] });
    await service.advance(minute);
    const sent = (await account.messages()).at(-1);
    await account.box("POST", `/messages/${sent?.id}/status`, {
      status: "failed",
      errorCode: 131026,
    });
    await service.advance(minute);
    expect(await reported()).toEqual([["automation.failed", error]]);
  }
});

test("a message that fails while the run is further on fails it too; another run's or the chat's does not", async () => {
  const account = await service.account();
  const phone = service.phone("0003");
  const older = await start([{ type: "send", text: "uno" }], { account, phone });
  await service.advance(minute);
  expect(await older.run()).toMatchObject({ status: "completed" });
  const steps = [
    { type: "send", text: "dos" },
    { type: "wait", ms: hour },
    { type: "send", text: "tres" },
  ] as const;
  const { run, sent } = await start(steps, { account, phone });
  await service.advance(minute);
  await account.api<Sent>("POST", "/messages", { to: phone, text: "api" });
  const fail = async (text: string) => {
    const message = (await account.messages()).find((one) => one.text === text);
    await account.box("POST", `/messages/${message?.id}/status`, {
      status: "failed",
      errorCode: "131049",
    });
    return run();
  };
  expect(await fail("uno")).toMatchObject({ status: "running" });
  expect(await fail("api")).toMatchObject({ status: "running" });
  expect(await fail("dos")).toMatchObject({
    status: "failed",
    error: "El mensaje no se pudo entregar (código 131049).",
  });
  await service.advance(2 * hour);
  expect(await sent()).not.toContain("tres");
});

test("a message that stays pending holds nothing up; a run without steps completes, though not before its start was answered", async () => {
  const pending = await start([{ type: "send", text: "hola" }], { phone: service.phone("0002") });
  const empty = await start([]);
  expect(await empty.reported()).toEqual([]);
  await service.advance(second);
  expect(await pending.reported()).toEqual([["automation.completed", undefined]]);
  expect(await empty.reported()).toEqual([["automation.completed", undefined]]);
});

test("a wait is as long as it says, divided by the speed", async () => {
  for (const speed of [1, 50]) {
    const on = await startService({ speed });
    const { run } = await start([{ type: "wait", ms: hour }], { on });
    // The step, the wait, and the end: a moment passes before each.
    await on.advance(hour / speed + 200 / speed - 1);
    expect((await run()).status).toBe("running");
    await on.advance(1);
    expect((await run()).status).toBe("completed");
    await on.close();
  }
});

test("a run can fail by its author's word, and keeps the steps it began with", async () => {
  const steps = [
    { type: "fail", error: "Sin stock de {{producto}}" },
    { type: "send", text: "no" },
  ] as const;
  const { account, id, sent, reported } = await start(steps, { data: { producto: "mate" } });
  await account.box("PATCH", `/automations/${id}`, { steps: [], status: "paused" });
  await service.advance(second);
  expect(await reported()).toEqual([["automation.failed", "Sin stock de mate"]]);
  expect(await sent()).toEqual([]);
});

test("within 24 hours of a human's reply a run sends nothing and says so; after that it sends", async () => {
  const account = await service.account();
  const templateId = await account.template({ body: "hola" });
  const phone = service.phone("0001");
  await account.customerWrites(phone);
  await account.box("POST", "/colleague/replies", { phone, text: "Le atiende Carla" });
  const stopped = await start([{ type: "send", templateId }], { account, phone });
  await service.advance(second);
  expect(await stopped.run()).toMatchObject({
    status: "failed",
    error: expect.stringContaining("24 horas"),
  });
  const steps = [
    { type: "wait", ms: day },
    { type: "send", templateId },
  ] as const;
  const { sent } = await start(steps, { account, phone });
  expect(await sent()).toEqual([]);
  await service.advance(day + minute);
  expect(await sent()).toEqual(["hola"]);
});

test("past the month's quota of steps or requests a run fails with a text that says so", async () => {
  const receiver = await startTestServer((response) => response.end());
  const account = await service.account();
  const wait = { type: "wait", ms: 1 } as const;
  await account.box("PUT", "/usage", { automationSteps: 199_997 });
  const steps = await start([wait, wait, wait, { type: "fail", error: "no" }], { account });
  await service.advance(second);
  expect((await steps.run()).error).toMatch(/200000 pasos de automatizaciones/);
  await account.box("PUT", "/usage", { automationSteps: 0, automationRequests: 50_000 });
  const requests = await start([{ type: "request", url: receiver.url, body: {} }], { account });
  await service.advance(second);
  expect((await requests.run()).error).toMatch(/50000 pedidos HTTP/);
  expect(receiver.seen).toEqual([]);
});

test("the contact limit is refused as messaging refuses it, and leaves no run", async () => {
  const account = await service.account({ contactLimit: 0 });
  const { id } = await account.automation();
  expect(
    (await account.api("POST", `/automations/${id}/runs`, { phone: service.phone() })).status,
  ).toBe(402);
  expect(await account.runs()).toEqual([]);
});

test("a customer's message starts the oldest published automation that waits for one", async () => {
  const account = await service.account();
  const trigger = "customer-message";
  const steps = [{ type: "send", text: "Recibimos: {{text}}" }];
  await account.automation({ trigger, status: "paused" });
  await account.automation({ trigger: "incoming-webhook" });
  await account.automation({ trigger, steps });
  await account.automation({ trigger });
  const phone = service.phone("0001");
  await account.customerWrites(phone, "hola");
  // One at a time: the next message finds it in progress.
  await account.customerWrites(phone, "¿hola?");
  await service.advance(second);
  expect((await account.messages()).map(({ text }) => text)).toEqual([
    "hola",
    "¿hola?",
    "Recibimos: hola",
  ]);
  expect(await account.runs()).toHaveLength(1);
});

const exits = {
  onSuccess: [{ type: "fail", error: "success" }],
  onError: [{ type: "fail", error: "error" }],
} as const;
/** Which exit was taken is the error with which the run fails. */
const request = (url: string, body: unknown = {}) =>
  ({
    type: "request",
    url,
    body,
    onSuccess: [...exits.onSuccess],
    onError: [...exits.onError],
  }) satisfies AutomationStep;

async function exitOf({ run }: Awaited<ReturnType<typeof start>>, on = service) {
  return until("the exit", async () => {
    await on.advance(second);
    return (await run()).error;
  });
}

test("a request has the automation's way to sign, over the body as the data fill it in, at the machine's time", async () => {
  const receiver = await startTestServer((response) => response.end("gracias"));
  const signature = {
    header: "x-sig",
    algorithm: "sha512",
    encoding: "base64",
    timestampHeader: "x-time",
    content: "{timestamp}.{body}",
  };
  const body = { pedido: "{{pedido}}", lineas: ["¡{{nombre}}!", 2], nada: null };
  const data = { pedido: "7", nombre: "Ñandú" };
  const asked = await start([request(`${receiver.url}/pedidos?de={{x}}`, body)], {
    signature,
    data,
  });
  expect(await exitOf(asked)).toBe("success");
  const [seen] = receiver.seen;
  if (seen === undefined) return expect.unreachable();
  expect(seen).toMatchObject({
    method: "POST",
    path: "/pedidos?de={{x}}",
    headers: { "content-type": "application/json" },
  });
  expect(JSON.parse(seen.body.toString())).toEqual({
    pedido: "7",
    lineas: ["¡Ñandú!", 2],
    nada: null,
  });
  // The machine of these tests stands still, days before the sandbox's time.
  const time = String(createManualClock().now() / 1000);
  expect(seen.headers["x-time"]).toBe(time);
  expect(seen.headers["x-sig"]).toBe(
    createHmac("sha512", asked.token).update(`${time}.${seen.body}`).digest("base64"),
  );
});

test("2xx takes the success exit, and everything else the other; nothing is followed or tried again", async () => {
  const receiver = await startTestServer((response, { path }) =>
    response.writeHead(Number(path.slice(1)), { location: "/elsewhere" }).end(),
  );
  const account = await service.account();
  const seen: [number, string][] = [];
  for (const status of [200, 204, 299, 301, 404, 500])
    seen.push([
      status,
      await exitOf(await start([request(`${receiver.url}/${status}`)], { account })),
    ]);
  expect(seen.map(([, exit]) => exit)).toEqual([
    "success",
    "success",
    "success",
    "error",
    "error",
    "error",
  ]);
  expect(receiver.seen).toHaveLength(6);
  expect(await exitOf(await start([request("http://127.0.0.1:1/")], { account }))).toBe("error");
});

test("a receiver that hangs or drips has 10 s of the machine's time, whatever the speed", async () => {
  const clock = createManualClock();
  const on = await startService({ clock, speed: 1_000 });
  for (const answer of [
    () => {},
    (response: ServerResponse) => void response.writeHead(200).write("…"),
  ]) {
    const receiver = await startTestServer(answer);
    const asked = await start([request(receiver.url)], { on });
    await on.advance(hour);
    await until("the request", () => receiver.seen.length > 0);
    await on.advance(hour);
    await clock.advance(9_999);
    expect((await asked.run()).left[0]?.type).toBe("request");
    await clock.advance(1);
    expect(await exitOf(asked, on)).toBe("error");
  }
  await on.close();
});

test("an exit that leads nowhere goes on with the next step", async () => {
  const receiver = await startTestServer((response) => response.writeHead(500).end());
  const asked = await start([
    { type: "request", url: receiver.url, body: {} },
    { type: "fail", error: "sigue" },
  ]);
  expect(await exitOf(asked)).toBe("sigue");
});

test("a signature that the token is no key for is refused with the automation", async () => {
  const account = await service.account();
  const order = { name: "x", signature: { service: "acme", secretEncoding: "hex" } };
  expect(await account.box("POST", "/automations", order)).toMatchObject({
    status: 400,
    body: { error: "the secret is not hex" },
  });
});

test("an incoming webhook needs no key, takes every other field as a variable, and counts as a call, refused or not", async () => {
  const account = await service.account();
  const hooked = await account.automation({
    trigger: "incoming-webhook",
    steps: [{ type: "wait", ms: minute }],
  });
  const call = (body: unknown, url = hooked.hookUrl) =>
    callPlainly<{ runId: string }>("POST", url, { body });
  const phone = service.phone();
  const answer = await call({ phone, name: "Ana", pedido: "7", total: 12.5, lineas: [{ a: 1 }] });
  expect(answer.status).toBe(201);
  const run = (await account.box<RunRecord>("GET", `/runs/${answer.body.runId}`)).body;
  expect(run.data).toEqual({ pedido: "7", total: "12.5", lineas: '[{"a":1}]' });
  const statuses: number[] = [];
  for (const body of [{ phone }, {}, "{", "[]"]) statuses.push((await call(body)).status);
  expect(statuses).toEqual([409, 400, 400, 400]);
  expect((await account.usage()).apiCalls.used).toBe(5);
  const manual = await account.box<{ hookId: string }>("POST", "/automations", { name: "manual" });
  for (const id of [manual.body.hookId, "nonsense"]) {
    expect(await call({ phone }, hooked.hookUrl.replace(/[^/]+$/, id))).toMatchObject({
      status: 404,
      body: { cause: null },
    });
  }
  expect((await account.usage()).apiCalls.used).toBe(5);
});
