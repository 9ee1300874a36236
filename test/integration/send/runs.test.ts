import { expect, test } from "vitest";
import { until } from "../../harness/until.ts";
import { openRelay, pageOf, type SendingRelay, startedOf } from "./open-relay.ts";

/** The automation that the sandbox begins with and that is started by hand. */
const manual = ({ sandbox }: SendingRelay) =>
  sandbox.automations().find(({ trigger }) => trigger === "manual")?.id ?? "";
const order = (reference: string, more: object = {}) => ({
  reference,
  phone: `+54911555501${reference.slice(-2)}`,
  ...more,
});

/** The sandbox posts its events to the relay. */
async function withWebhooks(): Promise<SendingRelay> {
  const relay = await openRelay({ sandbox: { speed: 100 } });
  relay.sandbox.addWebhook({ url: `${relay.url}/webhooks/main`, events: ["*"] });
  return relay;
}

test("starts one run per reference, also after a restart and for concurrent calls", async () => {
  const relay = await openRelay();
  const automation = manual(relay);
  const body = order("order-01", { name: "Ana", data: { pedido: "17" }, metadata: { team: "a" } });
  const answers = await Promise.all(Array.from({ length: 20 }, () => relay.run(automation, body)));
  const [run, ...others] = relay.sandbox.runs();
  expect(others).toEqual([]);
  const first = {
    account: "main",
    reference: "order-01",
    runId: run?.id,
    automation,
    stored: true,
  };
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(1);
  for (const { status, body: answer } of answers) {
    if (status === 409) expect(answer).toMatchObject({ code: "conflict" });
    else expect(answer).toEqual({ ...first, created: status === 201 });
  }
  await relay.restart();
  expect(await relay.run(automation, body)).toMatchObject({
    status: 200,
    body: { ...first, created: false },
  });
  expect(relay.sandbox.runs()).toHaveLength(1);
  expect((await relay.run(automation, order("order-02"))).status).toBe(201);
  expect(relay.sandbox.runs()).toHaveLength(2);
});

test("rejects another automation or body under the same reference and names both", async () => {
  const relay = await openRelay();
  const automation = manual(relay);
  const { runId } = startedOf(await relay.run(automation, order("order-03")));
  const other = await relay.run("019a0000-0000-7000-8000-000000000000", order("order-03"));
  expect(other).toMatchObject({
    status: 409,
    body: {
      code: "idempotency_conflict",
      details: {
        reference: "order-03",
        first: { about: automation, runId },
        given: { about: "019a0000-0000-7000-8000-000000000000" },
      },
    },
  });
  for (const part of [runId, automation, "019a0000-0000-7000-8000-000000000000"])
    expect(other).toMatchObject({ body: { error: expect.stringContaining(part) } });
  expect(await relay.run(automation, order("order-03", { data: { a: "b" } }))).toMatchObject({
    body: { code: "idempotency_conflict" },
  });
  expect(relay.sandbox.runs()).toHaveLength(1);
});

test("starts a run of unknown outcome again only with a resend", async () => {
  const relay = await openRelay();
  const automation = manual(relay);
  // The run is to go on until the test moves the time.
  relay.sandbox.clock.freeze();
  relay.sandbox.setFaults({ api: [{ answer: "reset", when: "after", times: 1 }] });
  const lost = await relay.run(automation, order("order-04"));
  expect(lost).toMatchObject({
    status: 409,
    body: {
      code: "outcome_unknown",
      details: { reference: "order-04", about: automation, resend: 1, justNow: true },
    },
  });
  expect((await relay.run(automation, order("order-04"))).body).toMatchObject({
    code: "outcome_unknown",
    details: { justNow: false },
  });
  expect(relay.sandbox.runs()).toHaveLength(1);
  // The one that was started after all has the conversation: the service refuses, and nothing is
  // better known than before.
  expect(await relay.run(automation, order("order-04"), "?resend=1")).toMatchObject({
    status: 422,
    body: { details: { status: 409 } },
  });
  expect((await relay.run(automation, order("order-04"))).body).toMatchObject({
    code: "outcome_unknown",
    details: { resend: 1 },
  });
  relay.sandbox.clock.advance(600_000);
  expect(await relay.run(automation, order("order-04"), "?resend=1")).toMatchObject({
    status: 201,
    body: { created: true },
  });
});

test("lists runs with their status, which events update", async () => {
  const relay = await withWebhooks();
  const automation = manual(relay);
  const good = startedOf(
    await relay.run(automation, order("order-11", { metadata: { team: "a" } })),
  );
  // A number without an account on the network.
  const bad = startedOf(
    await relay.run(automation, { reference: "order-12", phone: "+5491155550000" }),
  );
  const runs = async (query: string) => pageOf(await relay.get(`/v1/runs${query}`)).data;
  await until(
    "both have ended",
    async () =>
      (await runs("?status=completed")).length === 1 && (await runs("?status=failed")).length === 1,
  );
  expect(await runs("?status=completed")).toEqual([
    {
      account: "main",
      runId: good.runId,
      reference: "order-11",
      metadata: { team: "a" },
      status: "completed",
      error: null,
      times: { started: expect.stringMatching(/Z$/), completed: expect.stringMatching(/Z$/) },
      registeredAt: expect.stringMatching(/Z$/),
      updatedAt: expect.stringMatching(/Z$/),
    },
  ]);
  expect(await runs("?reference=order-12")).toMatchObject([
    { runId: bad.runId, status: "failed", error: expect.stringMatching(/./) },
  ]);
  expect(await runs(`?runId=${good.runId}`)).toMatchObject([{ reference: "order-11" }]);
  expect(await runs("?reference=nobody")).toEqual([]);
  expect(await runs("?account=other")).toEqual([]);
  const page = pageOf(await relay.get("/v1/runs?limit=1"));
  expect(page.data).toMatchObject([{ reference: "order-12" }]);
  expect(await runs(`?limit=1&before=${page.next}`)).toMatchObject([{ reference: "order-11" }]);
});
