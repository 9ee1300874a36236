import { expect, test } from "vitest";
import { createService, day, minute } from "./service.ts";

/** What is published of one message to `phone` within a day, and how the record ends. */
function liveThrough(phone: string, speed = 1) {
  const service = createService({ speed });
  const message = service.send(phone);
  expect(message.status).toBe("pending");
  expect(service.published).toEqual([]);
  service.clock.advance(day);
  const seen = service.published.map(({ status, errorCode }) =>
    errorCode === undefined ? status : `${status} ${JSON.stringify(errorCode)}`,
  );
  return { seen, message, published: service.published };
}

test.each([
  ["0000 has no account on the network", "+5491122330000", ["failed 131026"], "failed"],
  ["0001 has read receipts off", "+5491122330001", ["sent", "delivered"], "delivered"],
  ["0002 stays pending for ever", "+5491122330002", [], "pending"],
  ["0003 is switched off", "+5491122330003", ["sent"], "sent"],
  ["0004 fails, and another device gets it afterwards", "+5491122330004", ["sent", "failed 131047", "delivered"], "delivered"],
  ["0007 is read before it is delivered, and stays read", "+5491122330007", ["sent", "read", "delivered"], "read"],
  ["0008 meets the marketing limit, its code as text", "+5491122330008", ['failed "131049"'], "failed"],
])("%s", (_name, phone, seen, last) => {
  const life = liveThrough(phone);
  expect(life.seen).toEqual(seen);
  expect(life.message.status).toBe(last);
  expect(life.message.future).toEqual([]);
});

test("0010 has every status reported twice", () => {
  const { seen } = liveThrough("+5491122330010");
  const once = seen.filter((_status, place) => place % 2 === 0);
  expect(once.slice(0, 2)).toEqual(["sent", "delivered"]);
  expect(seen).toEqual(once.flatMap((status) => [status, status]));
});

test("0009 is ten times as slow as another number with the same luck", () => {
  const usual = liveThrough("+5491122331234").published;
  const slow = liveThrough("+5491122330009").published;
  expect(slow.map(({ status }) => status)).toEqual(usual.map(({ status }) => status));
  for (const [place, { after }] of slow.entries()) expect(after / (usual[place]?.after ?? 0)).toBeCloseTo(10, 1);
});

test("other numbers: sent, delivered, and four in five read", () => {
  const service = createService();
  const sent = Array.from({ length: 2_000 }, (_, place) => service.send(`+54911223${String(place * 2 + 10_011).padStart(5, "0")}`));
  const usual = sent.filter(({ phone }) => !/00(0\d|10)$/.test(phone));
  service.clock.advance(day);
  const perMessage = Map.groupBy(service.published, ({ wamid }) => wamid);
  for (const { wamid, status } of usual) {
    const seen = perMessage.get(wamid as string)?.map((event) => event.status);
    expect(seen).toEqual(status === "read" ? ["sent", "delivered", "read"] : ["sent", "delivered"]);
  }
  const read = usual.filter(({ status }) => status === "read").length / usual.length;
  expect(read).toBeGreaterThan(0.77);
  expect(read).toBeLessThan(0.83);
});

test("delays are plausible: sent within a second, delivered seconds later, read within a minute", () => {
  const service = createService();
  for (let place = 0; place < 300; place += 1) service.send(`+549112244${String(place + 1_000).padStart(4, "0")}`);
  service.clock.advance(day);
  for (const events of Map.groupBy(service.published, ({ wamid }) => wamid).values()) {
    const [sent = 0, delivered = 0, read] = events.map(({ after }) => after);
    expect(sent).toBeGreaterThanOrEqual(200);
    expect(sent).toBeLessThanOrEqual(1_000);
    expect(delivered - sent).toBeGreaterThanOrEqual(499);
    expect(delivered - sent).toBeLessThanOrEqual(4_001);
    if (read === undefined) continue;
    expect(read - delivered).toBeGreaterThanOrEqual(2_999);
    expect(read - delivered).toBeLessThanOrEqual(60_001);
  }
});

test("speed divides the delays and changes nothing else", () => {
  const slow = liveThrough("+5491122331234").published;
  const fast = liveThrough("+5491122331234", 50).published;
  expect(fast.map(({ status }) => status)).toEqual(slow.map(({ status }) => status));
  for (const [place, { after }] of fast.entries()) expect(Math.abs(after - (slow[place]?.after ?? 0) / 50)).toBeLessThanOrEqual(1);
});

test("the same seed gives the same lives, another seed others", () => {
  const run = (seed: number) => {
    const service = createService({ seed });
    for (let place = 0; place < 50; place += 1) service.send(`+54911225${String(place + 21_000)}`);
    service.clock.advance(day);
    return service.published;
  };
  expect(run(3)).toEqual(run(3));
  expect(run(4)).not.toEqual(run(3));
});

test("the record's error code is there only while it is failed", () => {
  const service = createService();
  const message = service.send("+5491122330004");
  while (message.status !== "failed" && message.future.length > 0) service.clock.advance(100);
  expect(message).toMatchObject({ status: "failed", errorCode: 131047 });
  service.clock.advance(day);
  expect(message.status).toBe("delivered");
  expect(message).not.toHaveProperty("errorCode");
});

test("a status that is set calls off the rest of the life", () => {
  const service = createService();
  const message = service.send("+5491122331234");
  service.clock.advance(1_000);
  expect(service.statuses(message.wamid)).toEqual(["sent"]);
  service.messaging.setStatus("main", message.id, "failed", "rate_limited");
  expect(service.published.at(-1)).toMatchObject({ status: "failed", errorCode: "rate_limited" });
  service.clock.advance(day);
  expect(service.statuses(message.wamid)).toEqual(["sent", "failed"]);
  expect(message).toMatchObject({ status: "failed", errorCode: "rate_limited" });
});

test("a status may be set backwards, pending is never published, a bare failure has a code", () => {
  const service = createService();
  const message = service.send("+5491122330002");
  service.messaging.setStatus("main", message.id, "read");
  service.messaging.setStatus("main", message.id, "failed");
  expect(message.errorCode).toBe(131000);
  service.messaging.setStatus("main", message.id, "failed", 131056);
  service.messaging.setStatus("main", message.id, "failed");
  expect(message.errorCode).toBe(131056);
  service.messaging.setStatus("main", message.id, "pending");
  expect(message).toMatchObject({ status: "pending" });
  expect(message).not.toHaveProperty("errorCode");
  expect(service.statuses(message.wamid)).toEqual(["read", "failed", "failed", "failed"]);
});

test("what the customer wrote has no status to set, nor has a message of nobody's or of another account's", () => {
  const { messaging, refusal, send } = createService();
  const received = messaging.receive("main", { phone: "+5491122331234", text: "hola" });
  expect(refusal(() => messaging.setStatus("main", received.id, "read")).status).toBe(400);
  expect(refusal(() => messaging.setStatus("main", "nothing", "read")).status).toBe(404);
  const { id } = send("+5491122331234");
  expect(refusal(() => messaging.setStatus("other", id, "read")).status).toBe(404);
  expect(refusal(() => messaging.setStatus("main", id, "received")).status).toBe(400);
  expect(messaging.setStatus("main", id, "read").status).toBe("read");
});

test("lives go on after a restart: what fell due meanwhile at once and in order, the rest in time", () => {
  const first = createService();
  const messages = Array.from({ length: 20 }, (_, place) => first.send(`+549112233${place + 2_000}`));
  first.clock.advance(1_500);
  const left = structuredClone(messages.map(({ wamid, future }) => ({ wamid, left: future.map(({ status }) => status) })));
  expect(left.some((message) => message.left.length > 1)).toBe(true);

  const second = createService({ world: first.world, at: first.clock.now() + 30_000 });
  first.clock.close();
  second.messaging.resume();
  expect(second.published).toEqual([]);
  second.clock.advance(0);
  const late = second.published.length;
  expect(late).toBeGreaterThan(0);
  second.clock.advance(minute);
  expect(second.published.length).toBeGreaterThan(late);
  for (const message of left) expect(second.statuses(message.wamid)).toEqual(message.left);
});
