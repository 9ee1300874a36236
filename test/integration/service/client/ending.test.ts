import { describe, expect, test } from "vitest";
import { settled } from "../../../harness/manual-clock.ts";
import { until } from "../../../harness/until.ts";
import { failureOf, openClient, openScripted, recordingAdmission } from "./open-client.ts";
import { bytesOf, jsonAnswer } from "./scripted-service.ts";

const body = { to: "+5491155550000", text: "hola" };
const me = jsonAnswer(200, '{"plan":"escala"}');

/** An admission that lets nobody in until told. */
function heldAdmission() {
  const inner = recordingAdmission();
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return {
    ...inner,
    open,
    async enter(request: Parameters<typeof inner.enter>[0]) {
      await Promise.race([
        opened,
        new Promise((_, reject) =>
          request.signal?.addEventListener("abort", () => reject(request.signal?.reason)),
        ),
      ]);
      return inner.enter(request);
    },
  };
}

describe("closing the client", () => {
  test("finishes calls in flight, and rejects further ones", async () => {
    let release = () => {};
    const { service, client } = await openScripted((_request, _number, socket) => {
      release = () => socket.write(me);
      return undefined;
    });
    const calling = client.me();
    await until("the request", () => service.seen.length === 1);
    let isClosed = false;
    const closing = client.close().then(() => {
      isClosed = true;
    });
    expect(await failureOf(client.sendMessage(body))).toMatchObject({
      kind: "network",
      outcome: "not-done",
      failure: { code: "closed" },
    });
    await settled();
    expect(isClosed).toBe(false);
    release();
    expect(await calling).toEqual({ plan: "escala" });
    await closing;
    await until("the connection to be closed", () => service.open.size === 0);
  });

  test("ends the wait for the next attempt with the last result, and the wait for a permit", async () => {
    const { service, client, clock } = await openScripted(
      () => bytesOf("HTTP/1.1 502 Bad Gateway", '{"error":"Uy","cause":null}'),
      {
        retry: { isTemporary: () => true },
      },
    );
    clock.holdWaits();
    const failing = failureOf(client.me());
    await until("the wait", () => clock.waits.length === 1);
    const admission = heldAdmission();
    const held = openClient(service.baseUrl, { admission });
    const waiting = failureOf(held.client.me());
    await settled();
    await Promise.all([client.close(), held.client.close()]);
    expect(await failing).toMatchObject({ kind: "rejected", text: "Uy" });
    expect(await waiting).toMatchObject({
      kind: "network",
      failure: { code: "closed" },
      outcome: "not-done",
    });
    expect(service.seen).toHaveLength(1);
  });

  test("with a deadline it aborts unfinished calls, and does not retry", async () => {
    const { service, client, clock, admission } = await openScripted(() => undefined, {
      connections: 1,
    });
    const sent = failureOf(client.sendMessage(body));
    await until("the request", () => service.seen.length === 1);
    const unsent = failureOf(client.me());
    await until("the second to wait", () => clock.deadlines() === 2);
    // The test's clock has every other wait over at once.
    await client.close(5_000);
    expect(clock.waits).toEqual([5_000]);
    expect(await sent).toMatchObject({
      kind: "network",
      outcome: "unknown",
      failure: { code: "closed" },
    });
    expect(await unsent).toMatchObject({
      kind: "network",
      outcome: "not-done",
      failure: { code: "closed" },
    });
    expect(admission.settled).toEqual([[{ type: "unknown" }], [{ type: "not-sent" }]]);
    expect(clock.deadlines()).toBe(0);
    await until("the connection to be closed", () => service.open.size === 0);
    expect(service.seen).toHaveLength(1);
  });

  test("with a deadline given by a second close", async () => {
    const { service, client, clock } = await openScripted(() => undefined);
    const sent = failureOf(client.sendMessage(body));
    await until("the request", () => service.seen.length === 1);
    await Promise.all([client.close(), client.close(5_000)]);
    expect(await sent).toMatchObject({ outcome: "unknown", failure: { code: "closed" } });
    expect(clock.waits).toEqual([5_000]);
  });

  test("twice, and without a call ever made", async () => {
    const { client } = openClient("http://127.0.0.1:9");
    await Promise.all([client.close(), client.close()]);
    await client.close();
  });
});
