// @module-tag slow: only the benches need it.
import { createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { eventAt, numbersIn, requestFor, secret, wamidsOf } from "../../bench/events.ts";
import { parseEnvelope } from "../../src/model/envelope.ts";
import { isCanonicalUuid } from "../../src/model/ids.ts";

const runs = fc.integer({ min: 0, max: 4095 });

test("every event is a valid envelope of about 330 bytes whose numbers can be read back", () => {
  fc.assert(
    fc.property(runs, fc.nat(5_000_000), (run, sequence) => {
      const { id, body } = eventAt(run, sequence);
      const parsed = parseEnvelope(body);
      expect(parsed.ok && parsed.envelope.id).toBe(id);
      expect(isCanonicalUuid(id)).toBe(true);
      expect(body.length).toBeGreaterThan(315);
      expect(body.length).toBeLessThan(340);
      expect(numbersIn(body)).toEqual({ run, sequence });
    }),
  );
});

test("a set has three events of each message, in order", () => {
  const set = { run: 7, count: 3700 };
  const told = new Map<string, string[]>();
  const ids = new Set<string>();
  for (let sequence = 0; sequence < set.count; sequence += 1) {
    const { id, body } = eventAt(set.run, sequence);
    const { data } = JSON.parse(body.toString()) as { data: { wamid: string; status: string } };
    told.set(data.wamid, [...(told.get(data.wamid) ?? []), data.status]);
    ids.add(id);
  }
  expect(ids.size).toBe(set.count);
  expect([...told.keys()].sort()).toEqual(wamidsOf(set).sort());
  const lives = new Set([...told.values()].map((life) => life.join(">")));
  expect(lives).toEqual(new Set(["sent>delivered>read", "sent>delivered", "sent"]));
  expect(wamidsOf({ run: 8, count: 3700 }).some((wamid) => told.has(wamid))).toBe(false);
});

test("wamids look like real ones", () => {
  for (const wamid of wamidsOf({ run: 3, count: 100 })) {
    expect(wamid).toHaveLength(62);
    expect(Buffer.from(wamid.slice("wamid.".length), "base64").toString("latin1")).toMatch(/54911\d{8}/);
  }
});

test("a request has the signature of its body", () => {
  const [head, body] = requestFor(1, 2).toString().split("\r\n\r\n") as [string, string];
  const signature = createHmac("sha256", secret).update(body).digest("hex");
  expect(head).toContain(`x-acme-signature: sha256=${signature}`);
  expect(head).toContain(`content-length: ${Buffer.byteLength(body)}`);
});
