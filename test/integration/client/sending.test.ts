import { expect, test } from "vitest";
import { RelayClient, RelayClientError } from "../../../src/client/relay-client.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { hello, openPhone, openRelay, type SendingRelay, sentBy } from "../send/open-relay.ts";
import { startHttp } from "../url-destination/downstream.ts";

const clientOf = (relay: SendingRelay) => new RelayClient({ url: relay.url, token: relayToken });
const settings = { reconcile: { schedule: "off", after: "60s" } };

async function failure(promise: Promise<unknown>): Promise<RelayClientError> {
  const error = await promise.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(RelayClientError);
  return error as RelayClientError;
}

test("send: sends once per key, repeats the first answer, rejects another body, and generates a missing key", async () => {
  const relay = await openRelay({ settings });
  const client = clientOf(relay);
  const order = { ...hello, reference: "order-1", metadata: { team: "a" } };
  const sent = await client.send(order, { idempotencyKey: "k1", maxWaitMs: 5_000 });
  expect(sent).toMatchObject({
    account: "main",
    idempotencyKey: "k1",
    status: "pending",
    reference: "order-1",
    stored: true,
    replayed: false,
  });
  expect(await client.send(order, { idempotencyKey: "k1" })).toEqual({ ...sent, replayed: true });
  expect(
    await failure(client.send({ ...order, text: "Otro" }, { idempotencyKey: "k1" })),
  ).toMatchObject({
    status: 409,
    code: "idempotency_conflict",
  });
  const second = await client.send(hello);
  expect(second.idempotencyKey).toMatch(/^[0-9a-f-]{36}$/);
  expect(await client.send(hello, { idempotencyKey: second.idempotencyKey })).toMatchObject({
    id: second.id,
    replayed: true,
  });
  expect(sentBy(relay)).toHaveLength(2);
  await expect(client.send(hello, { idempotencyKey: "canción" })).rejects.toThrow(TypeError);

  expect(await client.getMessage({ wamid: "order-1" })).toMatchObject({
    wamid: sent.wamid,
    id: sent.id,
    metadata: { team: "a" },
    status: "pending",
  });
  expect(await client.getMessage({ wamid: sent.wamid, account: "main" })).toEqual(
    await client.getMessage({ wamid: sent.id ?? "" }),
  );
  expect(await failure(client.getMessage({ wamid: "nobody/else" }))).toMatchObject({
    status: 404,
    code: "not_found",
  });
  expect(
    (await Array.fromAsync(client.messages({ account: "main" }))).map(({ wamid }) => wamid),
  ).toEqual([second.wamid, sent.wamid]);
  expect(await Array.fromAsync(client.messages({ reference: "order-1", limit: 5 }))).toHaveLength(
    1,
  );
});

test("send: without an answer the error names the key, so a repeat sends nothing twice", async () => {
  const keys: unknown[] = [];
  const { url } = await startHttp((request) => {
    keys.push(request.headers["idempotency-key"]);
    request.socket.destroy();
  });
  const client = new RelayClient({ url: new URL(url).origin, token: "t" });
  const lost = await failure(client.send({ to: openPhone, text: "Hola" }));
  expect(lost).toMatchObject({
    code: "no_answer",
    details: { idempotencyKey: expect.stringMatching(/^[0-9a-f-]{36}$/) },
  });
  expect(keys).toEqual([(lost.details as { idempotencyKey: string }).idempotencyKey]);
});

test("reconcile polls everything due; secrets returns what each has verified", async () => {
  const relay = await openRelay({ settings });
  const client = clientOf(relay);
  const sentAt = new Date(Date.now() - 90_000);
  for (const n of [1, 2])
    await client.track({
      account: "main",
      wamid: `w${n}`,
      id: `0199aa10-0000-7000-8000-00000000000${n}`,
      sentAt,
    });
  expect(await client.planReconcile()).toMatchObject({
    accounts: [{ account: "main", due: 2, wouldPoll: 2, stopped: null }],
  });
  expect(await client.reconcile({ account: "main" })).toMatchObject([
    { account: "main", polled: 2, missing: 2, changed: 0, stopped: null },
  ]);
  expect(await failure(client.reconcile({ account: "other" }))).toMatchObject({
    status: 400,
    code: "bad_request",
  });
  expect(await client.listSecrets()).toMatchObject({
    data: [{ source: "main", place: "sources.main.signature.secrets[0]", events: 0, lastAt: null }],
  });
});

test("reconcile continues after the relay paused, as one pass, and sums up", async () => {
  const asked: unknown[] = [];
  const server = await startHttp((_request, response) => {
    asked.push(JSON.parse(String(server.seen.at(-1)?.body)));
    const account = {
      account: "main",
      polled: 10,
      changed: 3,
      unchanged: 6,
      missing: 1,
      failed: 0,
      postponed: 0,
    };
    response.end(
      JSON.stringify({
        dueBy: "2026-11-21T12:00:00.000Z",
        more: asked.length < 3,
        accounts: [account],
      }),
    );
  });
  const client = new RelayClient({ url: new URL(server.url).origin, token: "t" });
  expect(await client.reconcile()).toMatchObject([
    { polled: 30, changed: 9, unchanged: 18, missing: 3, postponed: 0 },
  ]);
  const dueBy = "2026-11-21T12:00:00.000Z";
  expect(asked).toEqual([{ dueBy: null }, { dueBy }, { dueBy }]);
});
