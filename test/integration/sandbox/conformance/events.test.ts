// messaging-service-api.md, "Events".
import { expect, test } from "vitest";
import { until } from "../../../harness/until.ts";
import { hour, minute, type Sent, serviceOfFile } from "./harness.ts";
import { type Posted, startReceiver } from "./receiver.ts";
import { isSignedBy, uuid } from "./shapes.ts";

const service = await serviceOfFile();

const kb = 1_024;

test("Events: sent by HTTP POST to the webhook URLs of the account, signed, as JSON", async () => {
  await using receiver = await startReceiver();
  const [account, other] = [await service.account(), await service.account()];
  const [mine, theirs] = [receiver.url(), receiver.url()];
  const { secret } = await account.webhook(mine);
  await other.webhook(theirs);
  await account.box("POST", "/events", { event: "message.status", data: { wamid: "wamid.x" } });
  const [posted] = await receiver.arrivals(mine, 1);
  expect(posted?.method).toBe("POST");
  expect(posted?.headers["content-type"]).toMatch(/^application\/json/);
  expect(isSignedBy(secret, posted as Posted)).toBe(true);
  await service.delivered();
  expect(receiver.at(theirs)).toStrictEqual([]);
});

test("Events: each URL gets the event kinds that it is subscribed to", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const [all, statuses, failures] = [receiver.url(), receiver.url(), receiver.url()];
  await account.webhook(all);
  await account.webhook(statuses, { events: ["message.status"] });
  await account.webhook(failures, { events: ["automation.failed", "automation.completed"] });
  for (const event of ["message.status", "automation.failed", "other.kind", "automation.completed"])
    await account.box("POST", "/events", { event, data: {} });
  await receiver.arrivals(all, 4);
  await service.delivered();
  const kinds = (url: string) =>
    receiver
      .at(url)
      .map(({ body }) => body.event)
      .sort();
  expect(kinds(all)).toStrictEqual([
    "automation.completed",
    "automation.failed",
    "message.status",
    "other.kind",
  ]);
  expect(kinds(statuses)).toStrictEqual(["message.status"]);
  expect(kinds(failures)).toStrictEqual(["automation.completed", "automation.failed"]);
});

test("Events: message.status at each change to sent, delivered, read and failed, by wamid", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url();
  await account.webhook(url);
  const template = { id: await account.template() };
  const send = async (ending: string) =>
    (await account.api<Sent>("POST", "/messages", { to: service.phone(ending), template })).body
      .wamid;
  const [good, bad] = [await send("0001"), await send("0000")];
  await service.advance(minute);
  await account.box("POST", `/messages/${encodeURIComponent(good)}/status`, { status: "read" });
  await receiver.arrivals(url, 4);
  await service.delivered();
  const posts = receiver.at(url).map(({ body }) => body);
  for (const { event } of posts) expect(event).toBe("message.status");
  const of = (wamid: string) =>
    posts
      .filter(({ data }) => data["wamid"] === wamid)
      .toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  const words = (wamid: string) => of(wamid).map(({ data }) => data["status"]);
  // The document does not name the field; `status` is the sandbox's choice.
  expect(words(good)).toStrictEqual(["sent", "delivered", "read"]);
  expect(words(bad).at(-1)).toBe("failed");
  // Neither the acceptance nor what the customer writes is a change of a sent message.
  await account.customerWrites(service.phone());
  await service.delivered();
  expect(receiver.at(url)).toHaveLength(posts.length);
});

test("Events: message.status for all messages: from the API, from the chat and from campaigns", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url();
  await account.webhook(url);
  const templateId = await account.template();
  const [api, chat] = [service.phone("0003"), service.phone("0003")];
  const sent = await account.api<Sent>("POST", "/messages", {
    to: api,
    template: { id: templateId },
  });
  await account.customerWrites(chat);
  const replied = await account.box<{ wamid: string }>("POST", "/colleague/replies", {
    phone: chat,
    text: "Buen día",
  });
  await account.box("POST", "/campaigns", {
    name: "Promo",
    templateId,
    phones: [service.phone("0003"), service.phone("0003")],
  });
  await service.advance(minute);
  const wamids = (await receiver.arrivals(url, 4)).map(({ body }) => String(body.data["wamid"]));
  expect(wamids).toContain(sent.body.wamid);
  expect(wamids).toContain(replied.body.wamid);
  const fromCampaign = (await account.messages())
    .filter(({ origin }) => origin === "campaign")
    .map(({ wamid }) => wamid);
  expect(fromCampaign).toHaveLength(2);
  expect(new Set(wamids)).toStrictEqual(
    new Set([sent.body.wamid, replied.body.wamid, ...fromCampaign]),
  );
});

test("Events: automation.failed with runId and error when a run fails", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url();
  await account.webhook(url);
  const { id } = await account.automation({ steps: [{ type: "fail", error: "No hay stock" }] });
  const { body } = await account.api<{ runId: string }>("POST", `/automations/${id}/runs`, {
    phone: service.phone(),
    data: {},
  });
  await service.advance(minute);
  const [posted] = await receiver.arrivals(url, 1);
  expect(posted?.body).toMatchObject({
    event: "automation.failed",
    data: { runId: body.runId, error: "No hay stock" },
  });
});

test("Events: automation.completed when a run completes", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url();
  await account.webhook(url);
  const { id } = await account.automation({ steps: [{ type: "wait", ms: 1_000 }] });
  const { body } = await account.api<{ runId: string }>("POST", `/automations/${id}/runs`, {
    phone: service.phone(),
    data: {},
  });
  await service.delivered();
  expect(receiver.at(url)).toStrictEqual([]);
  await service.advance(minute);
  const [posted] = await receiver.arrivals(url, 1);
  expect(posted?.body.event).toBe("automation.completed");
  // Its payload is not shown; that it names the run is the sandbox's choice.
  expect(posted?.body.data).toMatchObject({ runId: body.runId });
});

test("Events: the envelope has id, event, createdAt and data; ids grow", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url();
  await account.webhook(url);
  const made: string[] = [];
  for (let n = 0; n < 5; n++) {
    made.push(
      (
        await account.box<{ id: string }>("POST", "/events", {
          event: "message.status",
          data: { n },
        })
      ).body.id,
    );
    await service.advance(1_000);
  }
  const posts = (await receiver.arrivals(url, 5))
    .map(({ body }) => body)
    .toSorted((a, b) => Number(a.data["n"]) - Number(b.data["n"]));
  expect(posts.map(({ id }) => id)).toStrictEqual(made);
  expect(made.toSorted()).toStrictEqual(made);
  for (const post of posts)
    expect(post).toStrictEqual({
      id: expect.stringMatching(uuid),
      event: "message.status",
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      data: post.data,
    });
});

test("Events: a large campaign makes thousands of events, of wamids that no API call gave", async () => {
  await using receiver = await startReceiver();
  const account = await service.account({ plan: "enterprise" });
  const url = receiver.url();
  await account.webhook(url);
  const campaign = await account.box("POST", "/campaigns", {
    name: "Masiva",
    templateId: await account.template(),
    recipients: 700,
    perSecond: 350,
  });
  expect(campaign.status, campaign.text).toBe(201);
  await service.advance(hour);
  const posts = await receiver.arrivals(url, 1_500);
  expect(new Set(posts.map(({ body }) => body.data["wamid"])).size).toBeGreaterThan(500);
  await service.delivered();
});

test("Events: data over 256 KB arrives as {truncated: true, id: null, size}, counted in bytes", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url();
  await account.webhook(url);
  const emit = async (data: object) => {
    const before = receiver.at(url).length;
    expect((await account.box("POST", "/events", { event: "other.kind", data })).status).toBe(201);
    return (await receiver.arrivals(url, before + 1)).at(-1)?.body;
  };
  /** Data whose JSON weighs so many bytes. */
  const weighing = (bytes: number, letter = "a") => ({
    text: letter.repeat((bytes - 11) / Buffer.byteLength(letter)),
  });
  const exact = weighing(256 * kb);
  expect(JSON.stringify(exact)).toHaveLength(256 * kb);
  expect((await emit(exact))?.data).toStrictEqual(exact);
  const over = await emit(weighing(256 * kb + 1));
  expect(over).toStrictEqual({
    id: expect.stringMatching(uuid),
    event: "other.kind",
    createdAt: expect.any(String),
    data: { truncated: true, id: null, size: 256 * kb + 1 },
  });
  // Fewer than 256 K characters, but more bytes.
  expect((await emit(weighing(280 * kb + 11, "ñ")))?.data).toStrictEqual({
    truncated: true,
    id: null,
    size: 280 * kb + 11,
  });
});

test("Events: once the monthly quota of deliveries is used up, following events are dropped, also after renewal", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url();
  await account.webhook(url);
  const emit = (n: number) =>
    account.box("POST", "/events", { event: "message.status", data: { n } });
  const arrived = async () => {
    await service.delivered();
    return receiver.at(url).map(({ body }) => body.data["n"]);
  };
  await account.box("PUT", "/usage", { webhookDeliveries: 499_999 });
  for (const n of [1, 2, 3]) await emit(n);
  expect(await arrived()).toStrictEqual([1]);
  expect((await account.usage()).webhookDeliveries).toStrictEqual({
    used: 500_000,
    limit: 500_000,
  });
  const events = (
    await account.box<{ data: { deliveries: { status: string }[] }[] }>("GET", "/events")
  ).body.data;
  expect(
    events.flatMap(({ deliveries }) => deliveries.map(({ status }) => status)).sort(),
  ).toStrictEqual(["delivered", "dropped", "dropped"]);
  await service.advance(31 * 24 * hour);
  expect((await account.usage()).webhookDeliveries.used).toBe(0);
  expect(await arrived()).toStrictEqual([1]);
  // The pipe is open again: what is new arrives, what was dropped does not.
  await emit(4);
  await receiver.arrivals(url, 2);
  expect(await arrived()).toStrictEqual([1, 4]);
});

test("Events: each event to each URL is one delivery", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const urls = [receiver.url(), receiver.url(), receiver.url()];
  await account.webhook(urls[0] ?? "");
  await account.webhook(urls[1] ?? "");
  await account.webhook(urls[2] ?? "", { events: ["other.kind"] });
  const emit = () => account.box("POST", "/events", { event: "message.status", data: {} });
  await emit();
  expect((await account.usage()).webhookDeliveries.used).toBe(2);
  await emit();
  await service.delivered();
  expect((await account.usage()).webhookDeliveries.used).toBe(4);
});

test("Events: a delivery that failed is tried again, and its retries add nothing to the count", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url((response, _posted, count) =>
    response.writeHead(count < 3 ? 500 : 200).end(),
  );
  await account.webhook(url);
  await account.box("POST", "/events", { event: "message.status", data: { n: 1 } });
  await until("two retries", async () => {
    await service.advance(minute);
    return receiver.at(url).length >= 3;
  });
  await service.delivered();
  const posts = receiver.at(url);
  expect(posts).toHaveLength(3);
  expect(new Set(posts.map(({ raw }) => raw.toString())).size).toBe(1);
  expect((await account.usage()).webhookDeliveries.used).toBe(1);
});

test("Events: polling GET /messages/{id} and webhooks tell the same, and may be used together", async () => {
  await using receiver = await startReceiver();
  const account = await service.account();
  const url = receiver.url();
  await account.webhook(url);
  const { body } = await account.api<Sent>("POST", "/messages", {
    to: service.phone("0001"),
    template: { id: await account.template() },
  });
  const polled: string[] = [];
  for (let step = 0; step < 50; step++) {
    await service.advance(200);
    const { status } = (await account.api<Sent>("GET", `/messages/${body.id}`)).body;
    if (status !== "pending" && status !== polled.at(-1)) polled.push(status);
  }
  const pushed = (await receiver.arrivals(url, 2)).map(({ body: { data } }) => data["status"]);
  expect(polled).toStrictEqual(["sent", "delivered"]);
  expect(pushed.sort()).toStrictEqual(polled.toSorted());
});
