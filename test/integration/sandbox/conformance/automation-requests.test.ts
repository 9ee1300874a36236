// messaging-service-api.md, "Endpoints": Automation incoming webhook, Automation outgoing HTTP
// request.
import { expect, test } from "vitest";
import { createManualClock } from "../../../harness/manual-clock.ts";
import { until } from "../../../harness/until.ts";
import { type Account, type Service, second, serviceOfFile, startService } from "./harness.ts";
import { callPlainly } from "./plain-http.ts";
import { type Answering, startReceiver } from "./receiver.ts";
import { expectBareError, isSignedBy, signatureHeaders } from "./shapes.ts";

const service = await serviceOfFile();

const callHook = (url: string, body: object = { phone: service.phone(), pedido: "A-7" }) =>
  callPlainly("POST", url, { body });

test("Automation incoming webhook: a call to it starts the automation", async () => {
  const account = await service.account();
  const { hookUrl } = await account.automation({
    trigger: "incoming-webhook",
    steps: [{ type: "wait", ms: 1_000 }],
  });
  const answer = await callHook(hookUrl);
  expect(answer.status, answer.text).toBeLessThan(300);
  expect(await account.runs()).toHaveLength(1);
});

test("Automation incoming webhook: calls to it count as API calls", async () => {
  const account = await service.account();
  const { hookUrl } = await account.automation({ trigger: "incoming-webhook" });
  expect((await account.usage()).apiCalls.used).toBe(0);
  await callHook(hookUrl);
  expect((await account.usage()).apiCalls.used).toBe(1);
  await account.api("GET", "/me");
  await callHook(hookUrl);
  expect((await account.usage()).apiCalls.used).toBe(3);
});

test("Automation incoming webhook: calls to it share the per-minute cap", async () => {
  const account = await service.account();
  const { hookUrl } = await account.automation({ trigger: "incoming-webhook" });
  for (let count = 0; count < 10; count++) await callHook(hookUrl);
  let admitted = 0;
  while ((await account.api("GET", "/me")).status === 200) admitted += 1;
  expect(admitted).toBe(290);
  const refused = await callHook(hookUrl);
  expectBareError(refused, 429);
  expect(refused.headers["x-ratelimit-limit"]).toBe("300");
  expect(await account.runs()).toHaveLength(10);
});

/**
 * A run of an automation that posts `body` to a receiver; the text of its next message tells which
 * exit was taken.
 */
async function request(
  on: Service,
  account: Account,
  answering: Answering | undefined,
  body: unknown = { pedido: "{{pedido}}" },
) {
  const receiver = await startReceiver();
  const url = receiver.url(answering);
  const exit = (name: string) => [{ type: "fail", error: name }];
  const automation = await account.automation({
    steps: [
      { type: "request", url, body, onSuccess: exit("exit success"), onError: exit("exit error") },
    ],
  });
  const answer = await account.api<{ runId: string }>(
    "POST",
    `/automations/${automation.id}/runs`,
    {
      phone: on.phone(),
      data: { pedido: "A-7" },
    },
  );
  expect(answer.status, answer.text).toBe(201);
  await on.advance(second);
  const exitTaken = async () => {
    await on.advance(second);
    return (await account.runs()).find((run) => run.id === answer.body.runId)?.error ?? null;
  };
  return {
    automation,
    posted: async () => (await receiver.arrivals(url, 1))[0],
    posts: () => receiver.at(url).length,
    exitTaken,
    /** Waits for the run to have left the step by one of its exits. */
    exit: () => until("the run to take an exit", exitTaken),
    [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose](),
  };
}

test("Automation outgoing HTTP request: a POST with the body that the author defined", async () => {
  await using asked = await request(service, await service.account(), undefined, {
    pedido: "{{pedido}}",
    de: ["la", "tienda"],
    n: 1,
  });
  const posted = await asked.posted();
  expect(posted?.method).toBe("POST");
  expect(posted?.body).toStrictEqual({ pedido: "A-7", de: ["la", "tienda"], n: 1 });
});

test("Automation outgoing HTTP request: signed with the automation's token, in a signature header", async () => {
  const account = await service.account();
  await using asked = await request(service, account, undefined, { texto: "ñandú 🐦" });
  const posted = await asked.posted();
  if (posted === undefined) return expect.unreachable();
  expect(asked.automation.token).toMatch(/^ats_/);
  expect(signatureHeaders(posted)).toHaveLength(1);
  expect(isSignedBy(asked.automation.token, posted)).toBe(true);
  // Another automation's token does not prove it, nor does this one prove another body.
  expect(isSignedBy((await account.automation()).token, posted)).toBe(false);
  expect(
    isSignedBy(asked.automation.token, {
      ...posted,
      raw: Buffer.concat([posted.raw, Buffer.from(" ")]),
    }),
  ).toBe(false);
});

test("Automation outgoing HTTP request: two exits: success for an answer, error for a refusal or nobody there", async () => {
  const account = await service.account();
  await using good = await request(service, account, (response) => response.writeHead(204).end());
  await using bad = await request(service, account, (response) => response.writeHead(500).end());
  await using gone = await request(service, account, (response) => response.destroy());
  expect(await Promise.all([good.exit(), bad.exit(), gone.exit()])).toStrictEqual([
    "exit success",
    "exit error",
    "exit error",
  ]);
});

test("Automation outgoing HTTP request: the receiver must answer within 10 seconds", async () => {
  // The receiver has the machine's time, so this sandbox stands on a machine whose time the test
  // moves.
  const machine = createManualClock();
  const service = await startService({ clock: machine });
  try {
    const account = await service.account();
    let answerLate = () => {};
    await using late = await request(service, account, () => {});
    await using justInTime = await request(service, account, (response) => {
      answerLate = () => response.end();
    });
    await late.posted();
    await justInTime.posted();
    await machine.advance(9_999);
    expect([await late.exitTaken(), await justInTime.exitTaken()]).toStrictEqual([null, null]);
    answerLate();
    expect(await justInTime.exit()).toBe("exit success");
    expect(await late.exitTaken()).toBeNull();
    await machine.advance(1);
    expect(await late.exit()).toBe("exit error");
  } finally {
    await service.close();
  }
});
