import { expect, test } from "vitest";
import { startSandbox } from "../../../../src/sandbox/start-sandbox.ts";
import type { CampaignRecord } from "../../../../src/sandbox/world.ts";
import { day, type Service, second, serviceOfFile } from "../conformance/harness.ts";

const service = await serviceOfFile();

async function open(setup: Parameters<Service["account"]>[0] = {}) {
  const account = await service.account(setup);
  const templateId = await account.template();
  const list = async () =>
    (await account.api<{ data: CampaignRecord[] }>("GET", "/campaigns")).body.data;
  return {
    account,
    templateId,
    list,
    start: (order: object) =>
      account.box<CampaignRecord>("POST", "/campaigns", { name: "Promo", templateId, ...order }),
    sent: async () => (await list())[0]?.sent,
  };
}

test("messages go out in batches, so many a second, 80 by default, in the order of the list", async () => {
  const { account, start, sent } = await open();
  const phones = Array.from({ length: 200 }, () => service.phone("0001"));
  expect((await start({ phones })).body).toMatchObject({ total: 200, sent: 0, perSecond: 80 });
  const counts: unknown[] = [];
  for (const ms of [950, 1_000, 1_000]) {
    await service.advance(ms);
    counts.push(await sent());
  }
  expect(counts).toEqual([80, 160, 200]);
  expect((await account.messages()).map(({ phone }) => phone)).toEqual(phones);
  await start({ phones: phones.slice(0, 10), perSecond: 2 });
  await service.advance(950);
  expect(await sent()).toBeLessThanOrEqual(3);
  await service.advance(5_000);
  expect(await sent()).toBe(10);
});

test("a campaign to thousands of strangers meets each fixed outcome once, and its totals match the events", async () => {
  await using sandbox = await startSandbox({ seed: "bulk" });
  sandbox.clock.freeze();
  await sandbox.control("POST", "/campaigns", {
    name: "Promo",
    recipients: 10_000,
    perSecond: 1_000,
  });
  sandbox.clock.advance(day);
  const messages = sandbox.messages();
  // Two of the numbers the provider rejects.
  expect(new Set(messages.map(({ phone }) => phone)).size).toBe(9_998);
  const seen = new Map<string, Set<string>>();
  for (const { body } of sandbox.events()) {
    const { status, wamid } = JSON.parse(body).data;
    seen.set(status, (seen.get(status) ?? new Set()).add(wamid));
  }
  const { data } = (await sandbox.call("GET", "/campaigns")).body as { data: CampaignRecord[] };
  // 0000 and 0008 failed, 0005 and 0006 were rejected; 0004 failed and was delivered after all.
  const deliveries = (seen.get("delivered") as Set<string>).size;
  expect(data).toMatchObject([
    { sent: 10_000, failed: 4, deliveries, reads: seen.get("read")?.size, replies: 0 },
  ]);
});

test("totals count a message once, however it moves; the record has exactly the fields of the page", async () => {
  const { account, start, list, templateId } = await open();
  const phones = ["0007", "0010", "0004", "0002"].map((ending) => service.phone(ending));
  const { body } = await start({ phones });
  await service.advance(day);
  const set = (message: { id: string } | undefined, status: string) =>
    account.box("POST", `/messages/${message?.id}/status`, { status });
  const [, twice, , waiting] = await account.messages();
  const reads = twice?.status === "read" ? 2 : 1;
  const expected = { deliveries: 3, reads, failed: 0 };
  const { id, createdAt } = body;
  const fields = {
    id,
    name: "Promo",
    templateId,
    createdAt: new Date(createdAt).toISOString(),
    total: 4,
    sent: 4,
    replies: 0,
  };
  expect(await list()).toEqual([{ ...fields, ...expected }]);
  // Read without being reported as delivered: it has reached the phone all the same.
  await set(waiting, "read");
  await set(waiting, "delivered");
  expect(await list()).toMatchObject([{ deliveries: 4, reads: reads + 1, failed: 0 }]);
  await set(waiting, "failed");
  expect(await list()).toMatchObject([{ failed: 1 }]);
});

test("the first thing a customer writes afterwards is the reply to the last campaign", async () => {
  const { account, start, list } = await open();
  const [phone, other] = [service.phone("0001"), service.phone("0001")];
  await account.customerWrites(phone);
  await start({ phones: [phone, other] });
  await service.advance(second);
  await start({ phones: [phone] });
  await service.advance(second);
  expect((await list()).map(({ replies }) => replies)).toEqual([0, 0]);
  for (const from of [phone, phone, other]) await account.customerWrites(from);
  expect((await list()).map(({ replies }) => replies)).toEqual([1, 1]);
});

test("recipients that are refused are counted as failed, and do not end the campaign", async () => {
  const { account, start, list } = await open({ contactLimit: 2 });
  await start({
    phones: ["0005", "0001", "0001", "0001", "0001"].map((ending) => service.phone(ending)),
  });
  await service.advance(day);
  expect(await list()).toMatchObject([{ total: 5, sent: 5, failed: 3, deliveries: 2 }]);
  expect(await account.messages()).toHaveLength(2);
});

test("each phone is written to once, phones must be international, and an empty list has an end", async () => {
  const { start } = await open();
  expect((await start({ phones: ["+5491122661234", "+54 9 11 2266-1234"] })).body).toMatchObject({
    total: 1,
  });
  expect(await start({ phones: ["1122"] })).toMatchObject({
    status: 400,
    body: { error: expect.stringMatching(/internacional/) },
  });
  expect((await start({ recipients: 0 })).body).toMatchObject({ total: 0 });
});
