import { expect, test } from "vitest";
import { isTruncated, parseEnvelope } from "../../../../src/model/envelope.ts";
import { fieldsSchema, subjectOf } from "../../../../src/model/event.ts";
import type { Wamid } from "../../../../src/model/ids.ts";
import { malformations, malformedBody } from "../../../../src/sandbox/events/delivery-faults.ts";
import { bodyOf, createEventMaker } from "../../../../src/sandbox/events/publisher.ts";
import { createRandom } from "../../../../src/sandbox/ids.ts";
import { drawLife } from "../../../../src/sandbox/statuses.ts";

const wamid = "wamid.HBgN" as Wamid;
const maker = () => createEventMaker({ clock: () => 1_800_000_000_000, random: createRandom(1) });

test("the relay reads each kind of event as what it plays", () => {
  const make = maker();
  const fields = fieldsSchema.parse({});
  const read = (event: ReturnType<typeof make.messageStatus>) => {
    const parsed = parseEnvelope(bodyOf(event));
    if (!parsed.ok) throw new Error(parsed.error);
    return { subject: subjectOf(parsed.envelope, fields), truncated: isTruncated(parsed.envelope) };
  };
  expect(read(make.messageStatus(wamid, "failed", 131026)).subject).toEqual({
    type: "message",
    wamid,
    status: "failed",
    errorCode: "131026",
  });
  expect(read(make.automationCompleted(make.runId())).subject).toMatchObject({
    type: "run",
    status: "completed",
  });
  expect(read(make.automationFailed(make.runId(), "no account")).subject).toMatchObject({
    status: "failed",
    error: "no account",
  });
  expect(read(make.truncated("message.status", 300_000))).toEqual({
    subject: { type: "none" },
    truncated: true,
  });
});

test.each(malformations)(
  "a malformed body is no envelope, and is not empty: %s",
  (malformation) => {
    const make = maker();
    const random = createRandom(malformation);
    const bodies = Array.from({ length: 200 }, () =>
      malformedBody(make.messageStatus(wamid, "sent"), malformation, random),
    );
    for (const body of bodies) {
      expect(parseEnvelope(body).ok).toBe(false);
      expect(body.length).toBeGreaterThan(0);
    }
    expect(new Set(bodies.map((body) => body.toString("latin1"))).size).toBe(bodies.length);
  },
);

test("every life ends in its status, and a failure has a code", () => {
  const none = { delivered: 0, failed: 0, failedThenDelivered: 0 };
  const ends = {
    read: "read",
    delivered: "delivered",
    failed: "failed",
    failedThenDelivered: "delivered",
  };
  for (const [life, end] of Object.entries(ends)) {
    for (let seed = 0; seed < 20; seed += 1) {
      const steps = drawLife(createRandom(seed), { ...none, [life]: 1 });
      expect(steps.at(-1)?.status).toBe(end);
      for (const step of steps) expect(step.errorCode !== undefined).toBe(step.status === "failed");
    }
  }
  expect(
    drawLife(createRandom(1), { ...none, failedThenDelivered: 1 }).map(({ status }) => status),
  ).toEqual(["sent", "failed", "delivered"]);
});
