import { expect, test } from "vitest";
import { z } from "zod";
import { longestWaitMs, until } from "../../harness/until.ts";
import { hello, openPhone, openRelay, pageOf, sentOf } from "./open-relay.ts";

test("finds a sent message by wamid, id and reference, with the statuses of its events", async () => {
  const relay = await openRelay({ sandbox: { speed: 100 } });
  relay.sandbox.addWebhook({ url: `${relay.url}/webhooks/main`, events: ["*"] });
  const readReceiptsOff = "+5491155550001";
  relay.sandbox.customerWrites(readReceiptsOff, "Hola");
  const sent = sentOf(
    await relay.send(
      { to: readReceiptsOff, text: "Hola", reference: "order/1", metadata: { team: "a" } },
      "k",
    ),
  );
  const get = async (name: string) => await relay.get(`/v1/messages/${encodeURIComponent(name)}`);
  const statusNow = async () =>
    z.object({ status: z.string() }).parse((await get(sent.wamid)).body).status;
  await until("it is delivered", async () => (await statusNow()) === "delivered");
  const { status, body } = await get(sent.wamid);
  const time = expect.stringMatching(/^\d{4}-.*Z$/);
  expect([status, body]).toEqual([
    200,
    {
      account: "main",
      wamid: sent.wamid,
      phone: "5491155550001",
      id: sent.id,
      conversationId: sent.conversationId,
      reference: "order/1",
      metadata: { team: "a" },
      status: "delivered",
      errorCode: null,
      times: { pending: time, sent: time, delivered: time },
      sentAt: time,
      registeredAt: time,
      updatedAt: time,
    },
  ]);
  for (const name of [sent.id, "order/1"]) expect((await get(name)).body).toEqual(body);
  expect(await get("nobody")).toMatchObject({ body: { code: "not_found" } });
  expect(
    (await relay.get(`/v1/messages/${encodeURIComponent(sent.wamid)}?account=other`)).status,
  ).toBe(404);
});

test("lists messages newest first, by page, reference, status and account", async () => {
  const relay = await openRelay();
  const wamids = [];
  for (const reference of ["a", "b", "b", "c"])
    wamids.push(sentOf(await relay.send({ ...hello, reference })).wamid);
  const list = async (query: string) => pageOf(await relay.get(`/v1/messages${query}`));
  const listed = async (query: string) => (await list(query)).data.map(({ wamid }) => wamid);
  expect(await listed("")).toEqual(wamids.toReversed());
  const page = await list("?limit=3");
  expect(await listed(`?limit=3&before=${page.next}`)).toEqual([wamids[0]]);
  expect(await listed("?reference=b")).toEqual([wamids[2], wamids[1]]);
  const named = await list("?reference=b&limit=1");
  expect(await listed(`?reference=b&limit=1&before=${named.next}`)).toEqual([wamids[1]]);
  for (const full of ["?limit=4", "?reference=b&limit=2", `?limit=1&before=${page.next}`])
    expect((await list(full)).next).toBeNull();
  expect(await listed("?status=read")).toEqual([]);
  expect(await listed("?status=pending&account=main")).toHaveLength(4);
  expect(await listed("?account=other")).toEqual([]);
  expect((await list("?reference=nobody")).next).toBeNull();

  expect(await relay.get("/v1/messages/b")).toMatchObject({
    status: 400,
    body: { details: [{ wamid: wamids[2] }, { wamid: wamids[1] }] },
  });
  expect((await relay.get("/v1/messages?x=1")).status).toBe(400);
  // A message of the chat: only its status was seen.
  relay.sandbox.addWebhook({ url: `${relay.url}/webhooks/main`, events: ["*"] });
  relay.sandbox.customerWrites(openPhone, "Otra vez");
  const reply = await relay.sandbox.control("POST", "/colleague/replies", {
    phone: openPhone,
    text: "Ya te ayudamos.",
  });
  relay.sandbox.clock.advance(10_000);
  await relay.sandbox.idle(longestWaitMs);
  const { wamid } = z.object({ wamid: z.string() }).parse(reply.body);
  expect((await relay.get(`/v1/messages/${encodeURIComponent(wamid)}`)).body).toMatchObject({
    registeredAt: null,
    reference: null,
  });
  expect((await listed("")).slice(0, 2)).toEqual([wamid, wamids[3]]);
});
