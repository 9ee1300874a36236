import { describe, expect, test } from "vitest";
import { until } from "../../../harness/until.ts";
import { errorOf, type Meeting, meet, resultOf } from "./meeting.ts";

/** Messages as the sandbox has them, and `POST /messages` as it has counted them on the wire. */
async function messages({ sandbox, usage }: Meeting): Promise<{ there: number; onTheWire: number }> {
  return { there: sandbox.messages().length, onTheWire: (await usage()).perMinute.messages.last };
}

async function sending(isTemporary?: (text: string) => boolean) {
  const meeting = await meet();
  const party = meeting.join(isTemporary === undefined ? {} : { retry: { isTemporary } });
  const [template] = meeting.sandbox.templates();
  const send = (ending?: string) => party.client.sendMessage({ to: meeting.phone(ending), template: { id: template?.id ?? "" } });
  return { meeting, party, send, client: party.client };
}

describe("the provider rejects a send with 502, and nothing was done", () => {
  test("temporarily and announced: it is retried and sent once", async () => {
    const { meeting, send } = await sending((text) => !text.includes("método de pago"));
    const sent = send("0006");
    // Half of the first wait and half of the draw: 750 ms.
    expect(await meeting.finish(sent)).toBeGreaterThanOrEqual(700);
    expect(await sent).toMatchObject({ status: "pending" });
    expect(await messages(meeting)).toEqual({ there: 1, onTheWire: 2 });
  });
});

// Nobody but the sandbox knows whether the message went: one call, and never a second by itself.
describe.each(["before", "after"] as const)("the outcome of a send is unknown, the fault came %s the work", (when) => {
  const there = when === "after" ? 1 : 0;

  test.each([
    [500, "unexpected"],
    ["reset", "network"],
  ] as const)("%s", async (answer, kind) => {
    const { meeting, send, party } = await sending();
    meeting.sandbox.setFaults({ api: [{ answer, when }] });
    expect(await errorOf(meeting, send())).toMatchObject({ kind, outcome: "unknown" });
    await meeting.pass(120_000);
    expect(meeting.sandbox.messages()).toHaveLength(there);
    expect((await meeting.usage()).perMinute.messages.peak).toBe(1);
    expect(party.calls.filter(({ request }) => request.cap === "messages")).toHaveLength(1);
  });

  // A 201 that breaks off, and a 201 that is no receipt.
  test("malformed", async () => {
    const { meeting, send } = await sending();
    meeting.sandbox.setFaults({ api: [{ answer: "malformed", when }] });
    const error = await errorOf(meeting, send());
    expect(error).toMatchObject({ kind: "malformed", outcome: "unknown", text: null });
    await meeting.pass(50_000);
    expect(await messages(meeting)).toEqual({ there, onTheWire: 1 });
  });

  test("hang, until the client's deadline", async () => {
    const { meeting, send, party } = await sending();
    const { clock, sandbox } = meeting;
    sandbox.setFaults({ api: [{ answer: "hang", when }] });
    const from = clock.now();
    const sent = send().then(
      () => "succeeded",
      (error: unknown) => error,
    );
    await until("the send to arrive", async () => (await meeting.usage()).perMinute.messages.last === 1);
    await clock.advance(9_999);
    expect(party.underWay()).toBe(1);
    await clock.advance(1);
    expect(await sent).toMatchObject({ kind: "timeout", outcome: "unknown", failure: { timeoutMs: 10_000 } });
    expect(party.calls.at(-1)).toMatchObject({ outcome: { type: "unknown" }, endedAt: from + 10_000 });
    await meeting.pass(45_000);
    expect(await messages(meeting)).toEqual({ there, onTheWire: 1 });
    // Its slots are held for the minute and the grace.
    expect(party.limiter.state().caps.messages.used).toBe(1);
    await meeting.pass(46_000);
    expect(party.limiter.state().caps.messages.used).toBe(0);
  });

  test("of a run: does not start it again", async () => {
    const { meeting, client } = await sending();
    const { sandbox } = meeting;
    sandbox.setFaults({ api: [{ answer: 500, when }] });
    const automation = sandbox.automations()[0]?.id ?? "";
    expect(await errorOf(meeting, client.startRun(automation, { phone: meeting.phone() }))).toMatchObject({ outcome: "unknown" });
    await meeting.pass(60_000);
    expect(sandbox.runs()).toHaveLength(there);
  });
});

test("retries hanging and cut reads", async () => {
  const { meeting, client } = await sending();
  const { sandbox, clock } = meeting;
  sandbox.setFaults({ api: [{ answer: "hang", times: 1 }] });
  const asking = client.me();
  await until("the call to arrive", async () => (await meeting.usage()).apiCalls.used === 1);
  await clock.advance(10_000);
  expect(await resultOf(meeting, asking)).toMatchObject({ plan: "enterprise" });
  sandbox.setFaults({ api: [{ answer: "reset", times: 2 }] });
  expect(await resultOf(meeting, client.me())).toMatchObject({ plan: "enterprise" });
  sandbox.setFaults({ api: [{ answer: "malformed" }] });
  expect(await errorOf(meeting, client.me())).toMatchObject({ kind: "malformed", status: 200 });
});

test("with a stopped sandbox nothing is done, and no slot leaks", async () => {
  const { meeting, client, party, send } = await sending();
  await meeting.sandbox.close();
  expect(await errorOf(meeting, client.me())).toMatchObject({ kind: "network", outcome: "not-done" });
  // Surely not sent: even a send is tried again.
  expect(await errorOf(meeting, send())).toMatchObject({ kind: "network", outcome: "not-done" });
  expect(party.calls.map(({ outcome }) => outcome?.type)).toEqual(Array.from({ length: 8 }, () => "not-sent"));
  expect(party.limiter.state().caps.messages.used).toBe(0);
});
