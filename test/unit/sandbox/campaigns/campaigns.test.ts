import { expect, test } from "vitest";
import { type CampaignOrder, createCampaigns } from "../../../../src/sandbox/campaigns/campaigns.ts";
import { createRandom } from "../../../../src/sandbox/ids.ts";
import { createService, day } from "../messaging/service.ts";

function createBulk(options: Parameters<typeof createService>[0] = {}) {
  const service = createService(options);
  const campaigns = createCampaigns({ ...service, random: createRandom(7) });
  return { ...service, campaigns, start: (order: Partial<CampaignOrder>) => campaigns.start("main", { name: "Promo", ...order }) };
}
/** Phones that mean nothing in particular. */
const usualPhones = (count: number) => Array.from({ length: count }, (_, place) => `+54911226${place + 11_000}`);

test("messages go out in batches, so many a second, 80 by default", () => {
  const { start, clock, world } = createBulk();
  const slow = start({ recipients: 200 });
  expect(slow).toMatchObject({ total: 200, sent: 0, perSecond: 80 });
  clock.advance(950);
  expect(slow.sent).toBe(80);
  clock.advance(1_000);
  expect(slow.sent).toBe(160);
  clock.advance(1_000);
  expect([slow.sent, world.messages.size + slow.failed]).toEqual([200, 200]);
  const fast = start({ recipients: 1_000, perSecond: 1_000 });
  const crawling = start({ recipients: 10, perSecond: 2 });
  clock.advance(950);
  expect(fast.sent).toBe(1_000);
  expect(crawling.sent).toBeLessThanOrEqual(3);
  clock.advance(5_000);
  expect(crawling.sent).toBe(10);
});

test("a campaign to thousands of strangers: as many events for wamids nobody knows, and totals that match them", () => {
  const { start, clock, published, world } = createBulk();
  const campaign = start({ recipients: 10_000, perSecond: 1_000 });
  clock.advance(day);
  const messages = world.messages.list("main");
  const byWamid = Map.groupBy(published, ({ wamid }) => wamid);
  expect(messages.every(({ origin, campaignId }) => origin === "campaign" && campaignId === campaign.id)).toBe(true);
  expect(new Set(messages.map(({ phone }) => phone)).size).toBe(messages.length);
  const having = (status: string) => [...byWamid.values()].filter((events) => events.some((event) => event.status === status)).length;
  // 10,000 numbers in a row: each number that means something comes once; two of them the provider rejects.
  expect(messages.length).toBe(9_998);
  expect(campaign).toMatchObject({ sent: 10_000, deliveries: having("delivered"), reads: having("read"), replies: 0 });
  // 0000 and 0008 failed, 0005 and 0006 were rejected; 0004 failed and was delivered after all.
  expect(campaign.failed).toBe(4);
  expect(published.length).toBeGreaterThan(25_000);
});

test("a long list is sent to in its order, and forgotten at the end", () => {
  const { start, clock, world } = createBulk();
  const phones = usualPhones(2_500);
  const campaign = start({ phones, perSecond: 7_000 });
  expect(world.recipients.size).toBe(1);
  clock.advance(350);
  expect(campaign.sent).toBe(2_500);
  expect(world.messages.list("main").map(({ phone }) => phone)).toEqual(phones.filter((phone) => !/000[56]$/.test(phone)));
  expect(world.recipients.size).toBe(0);
});

test("totals count a message once, however it moves", () => {
  const { start, clock, messaging, world } = createBulk();
  const campaign = start({ phones: ["+5491122330007", "+5491122330010", "+5491122330004", "+5491122330002"] });
  clock.advance(day);
  const twice = world.messages.list("main").find(({ phone }) => phone.endsWith("0010"));
  const readTwice = twice?.status === "read" ? 1 : 0;
  expect(campaign).toMatchObject({ deliveries: 3, reads: 1 + readTwice, failed: 0 });
  const waiting = world.messages.list("main").find(({ phone }) => phone.endsWith("0002"));
  // Read without a word of delivery: it has reached the phone all the same.
  messaging.setStatus("main", waiting?.id ?? "", "read");
  messaging.setStatus("main", waiting?.id ?? "", "delivered");
  expect(campaign).toMatchObject({ deliveries: 4, reads: 2 + readTwice, failed: 0 });
  messaging.setStatus("main", waiting?.id ?? "", "failed");
  expect(campaign.failed).toBe(1);
});

test("the first thing a customer writes afterwards is the reply to the last campaign", () => {
  const { start, clock, messaging } = createBulk();
  const [phone = "", other = ""] = usualPhones(2);
  const write = (from: string) => messaging.receive("main", { phone: from, text: "me interesa" });
  write(phone);
  const first = start({ phones: [phone, other] });
  clock.advance(1_000);
  const second = start({ phones: [phone] });
  clock.advance(1_000);
  expect([first.replies, second.replies]).toEqual([0, 0]);
  write(phone);
  write(phone);
  write(other);
  expect([first.replies, second.replies]).toEqual([1, 1]);
});

test("recipients that are refused are counted as failed, and do not end the campaign", () => {
  const { start, clock, account, world } = createBulk();
  account.contactLimit = 2;
  const campaign = start({ phones: ["+5491122330005", ...usualPhones(4)] });
  clock.advance(day);
  expect(campaign).toMatchObject({ total: 5, sent: 5, failed: 3, deliveries: 2 });
  expect([world.contacts.size, world.messages.size]).toEqual([2, 2]);
});

test("each phone is written to once, phones must be international, and strangers have a maximum", () => {
  const { start, clock, refusal } = createBulk();
  const campaign = start({ phones: ["+5491122661234", "+54 9 11 2266-1234"] });
  clock.advance(day);
  expect(campaign).toMatchObject({ total: 1, sent: 1 });
  expect(refusal(() => start({ phones: ["1122"] }))).toMatchObject({ status: 400, error: expect.stringMatching(/internacional/) });
  expect(refusal(() => start({ recipients: 1e9 })).status).toBe(400);
  expect(start({ recipients: 0 }).total).toBe(0);
});

test.each([{ recipients: 100 }, { phones: usualPhones(100) }])(
  "a campaign goes on after a restart, and so do its replies (%#)",
  (order) => {
    const first = createBulk();
    const campaign = first.start(order);
    first.clock.advance(450);
    first.clock.close();
    expect(campaign.sent).toBe(40);
    const answered = first.world.messages.list("main")[0]?.phone ?? "";
    const silent = first.world.messages.list("main")[1]?.phone ?? "";
    first.messaging.receive("main", { phone: answered, text: "sí" });

    const second = createBulk({ world: first.world, at: first.clock.now() + day });
    second.messaging.resume();
    second.campaigns.resume();
    second.messaging.receive("main", { phone: answered, text: "¿hola?" });
    expect(campaign.replies).toBe(1);
    second.messaging.receive("main", { phone: silent, text: "sí" });
    expect(campaign.replies).toBe(2);
    second.clock.advance(day);
    expect(campaign.sent).toBe(100);
    const phones = first.world.messages
      .list("main")
      .filter(({ origin }) => origin === "campaign")
      .map(({ phone }) => phone);
    expect(new Set(phones).size).toBe(100);
    expect(campaign.deliveries).toBe(100);
    expect(first.world.recipients.size).toBe(0);
  },
);
