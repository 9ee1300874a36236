import { expect, test } from "vitest";
import { z } from "zod";
import { eventDetailSchema } from "../../../src/model/answers/events.ts";
import { explainedSchema, messageSchema } from "../../../src/model/answers/subjects.ts";
import { searchSchema } from "../../../src/model/endpoints/read.ts";
import { allEndpoints } from "../../../src/model/endpoints/table.ts";
import { holdsPii, maskAnswer, piiOf, toAnswer } from "../../../src/model/view.ts";

/** The others need no token, and hold nothing private. */
const endpoints = allEndpoints.filter(({ path }) => path.startsWith("/v1/"));

/**
 * Fields of text that the relay or its settings write: they name no person. A new field of text is
 * marked, or stands here.
 */
const impersonal = new Set([
  // Names of the settings, and what the relay says of itself.
  ...[
    "account",
    "source",
    "route",
    "name",
    "origin",
    "verdict",
    "state",
    "previousState",
    "driver",
    "instance",
    "version",
    "host",
    "day",
    "accounts",
  ],
  // Of the business, at Meta.
  ...["number", "problems", "facts"],
  // Fingerprints, digests, cursors and places.
  ...["secret", "place", "data", "file", "digest", "next", "code", "meaning", "cause"],
  // Settings: their paths, their values with secrets masked, and faults, which never quote secrets.
  ...["path", "settings", "message", "changed", "needRestart", "overridden", "scopes", "ended"],
  // The OpenAPI document.
  ...["openapi", "info", "paths", "components"],
  // Rules of the audit.
  "broken",
]);

/** Fields of text without mark, by path. */
function* unmarked(schema: z.core.$ZodType, path: readonly string[] = []): Generator<string> {
  if (piiOf(schema) !== undefined) return;
  if (schema instanceof z.ZodObject) {
    for (const [key, field] of Object.entries(schema.shape))
      yield* unmarked(field as z.core.$ZodType, [...path, key]);
  } else if (
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodExactOptional
  ) {
    yield* unmarked(schema.unwrap(), path);
  } else if (schema instanceof z.ZodArray) yield* unmarked(schema.element, path);
  else if (schema instanceof z.ZodUnion) {
    for (const option of schema.options) yield* unmarked(option, path);
  } else if (schema instanceof z.ZodRecord) {
    // Its keys are data too; those of a mask of the whole were passed above.
    if (schema.keyType instanceof z.ZodString) yield* unmarked(schema.keyType, [...path, "(keys)"]);
    yield* unmarked(schema.valueType, path);
  } else if (
    schema instanceof z.ZodString ||
    schema instanceof z.ZodUnknown ||
    schema instanceof z.ZodAny
  ) {
    if (!impersonal.has(path.findLast((key) => key !== "(keys)") ?? "")) yield path.join(".");
  } else if (
    !(
      schema instanceof z.ZodNumber ||
      schema instanceof z.ZodBoolean ||
      schema instanceof z.ZodEnum ||
      isTimeOrLiteral(schema)
    )
  ) {
    throw new Error(
      `${path.join(".")} is a ${schema._zod.def.type}, which this test does not know`,
    );
  }
}

const isTimeOrLiteral = (schema: z.core.$ZodType) =>
  schema instanceof z.ZodLiteral ||
  schema instanceof z.ZodCustomStringFormat ||
  schema instanceof z.ZodISODateTime;

test("the walk finds a field without mark, at any depth", () => {
  const schema = z.object({
    data: z.array(z.object({ to: z.string().nullable(), more: z.record(z.string(), z.unknown()) })),
  });
  expect([...unmarked(z.object({ rows: schema.shape.data }))]).toEqual([
    "rows.to",
    "rows.more.(keys)",
    "rows.more",
  ]);
});

test.each(endpoints.map((endpoint) => [`${endpoint.method} ${endpoint.path}`, endpoint] as const))(
  "%s marks each field that can name a person",
  (_, { answers }) => {
    for (const { schema } of Object.values(answers))
      if (schema !== undefined) expect([...unmarked(schema)]).toEqual([]);
  },
);

test("every endpoint that answers a caller with personal data takes reveal", () => {
  const namesOf = (some: typeof endpoints) => some.map(({ name }) => name);
  const taking = namesOf(
    endpoints.filter(({ query }) => query !== undefined && "reveal" in query.shape),
  );
  const personal = endpoints.filter(({ answers }) =>
    Object.values(answers).some(({ schema }) => schema !== undefined && holdsPii(schema)),
  );
  expect(personal.length).toBeGreaterThan(15);
  expect(taking).toEqual(expect.arrayContaining(namesOf(personal)));
  for (const name of ["listen", "live", "startSession"]) expect(taking).not.toContain(name);
});

const wamid = "wamid.HBgNNTQ5MTEyMzQ1Njc4OQ==";
const phone = "+54 9 11 2345-6789";
const at = Date.parse("2026-11-20T08:00:00Z");

test("an answer holds no wamid, phone number or written text after masking", () => {
  const body = JSON.stringify({
    id: "e1",
    event: "message.received",
    createdAt: "2026-11-20T08:00:00Z",
    data: {
      wamid,
      from: "5491123456789",
      name: "Ana",
      text: { body: `Call me: ${phone}` },
      status: "sent",
      n: 5491987654321,
      tags: ["vip"],
    },
  });
  const event = {
    seq: 987654321,
    id: `${wamid}:sent`,
    event: "message.received",
    account: "main",
    source: "main",
    origin: "webhook",
    receivedAt: at,
    createdAt: at,
    secret: "sha256:1234",
    subject: { type: "message" as const, key: "opaque-549112345" },
    status: `sent to ${phone}`,
    previousStatus: null,
    transition: true,
    errorCode: "131026",
    disposition: "routed" as const,
    parkedUntil: null,
    duplicates: 0,
    conflicts: 0,
    fault: null,
    releasedAs: null,
    releasedFrom: null,
    size: body.length,
  };
  const attempt = {
    number: 1,
    at,
    tookMs: 5,
    status: 500,
    error: null,
    response: `no such contact ${phone}`,
  };
  const delivery = {
    id: `dlv_b${Buffer.from(`${wamid}:sent`).toString("base64url")}_fedcba987654`,
    event: 1,
    eventId: `${wamid}:sent`,
    route: "crm",
    state: "dead" as const,
    attempts: 1,
    replays: 0,
    nextAt: null,
    settledAt: at,
    reason: `refused ${wamid}`,
    cause: "503",
  };
  const signature = `sha256=98761543${"0f".repeat(28)}`;
  const clear = toAnswer(eventDetailSchema, {
    ...event,
    headers: { "x-from": phone, [phone]: phone, "x-hub-signature-256": signature },
    body: Buffer.from(body).toString("base64"),
    text: body,
    request: null,
    hydration: null,
    routes: [{ route: "crm", verdict: "skip", reason: `data.to is ${phone}` }],
    deliveries: [
      {
        ...delivery,
        attemptHistory: [attempt],
        next: { kind: "stopped", at: null, behind: null, ahead: 0, reason: `no more for ${phone}` },
      },
    ],
  } as never);
  const masked = maskAnswer(eventDetailSchema, clear);
  const texts = JSON.stringify({ ...masked, body: Buffer.from(masked.body, "base64").toString() });
  for (const personal of [
    wamid,
    "5491123456789",
    "2345",
    "Ana",
    "Call me",
    "opaque-549112345",
    "vip",
  ]) {
    expect(JSON.stringify(clear) + body).toContain(personal);
    expect(texts).not.toContain(personal);
  }
  // What is no person's stays.
  expect(masked.headers["x-hub-signature-256"]).toBe(signature);
  expect(masked).toMatchObject({
    seq: 987654321,
    event: "message.received",
    errorCode: "131026",
    receivedAt: "2026-11-20T08:00:00.000Z",
  });
  expect(JSON.parse(masked.text ?? "")).toMatchObject({
    event: "message.received",
    createdAt: "2026-11-20T08:00:00Z",
    data: { status: "sent" },
  });
  expect(masked.subject).toEqual({
    type: "message",
    key: expect.stringMatching(/^wamid:[0-9a-f]{12}$/),
  });
  // The original is unchanged, and the masked one has the same shape.
  expect(clear.subject?.key).toBe("opaque-549112345");
  expect(eventDetailSchema.safeParse(masked).success).toBe(true);
});

test("metadata, times of unknown statuses and names inside stories are masked", () => {
  const message = {
    account: "main",
    wamid,
    phone: "4021234",
    id: "m-1",
    conversationId: phone,
    reference: `order of ${phone}`,
    metadata: { [phone]: phone, of: [wamid], shop: "Center" },
    status: null,
    errorCode: null,
    times: { sent: "2026-11-20T08:00:00.000Z", [wamid]: "2026-11-20T08:00:00.000Z" },
    sentAt: null,
    registeredAt: null,
    updatedAt: "2026-11-20T08:00:00.000Z",
  };
  const masked = maskAnswer(messageSchema, message);
  expect(masked).toMatchObject({
    phone: "[phone]",
    reference: "order of [phone]",
    metadata: { "[phone]": "[phone]", shop: "[text, 6 characters]" },
  });
  const stories = maskAnswer(explainedSchema, {
    data: [{ message, run: null, events: [], next: null }],
  });
  expect(stories.data[0]?.message).toEqual(masked);
  for (const text of [JSON.stringify(masked), JSON.stringify(stories)])
    expect(text).not.toMatch(/wamid\.|2345/);
});

test("the id of a search hit is masked by its kind", () => {
  const hit = { account: "main", label: phone, status: null, at: "2026-11-20T08:00:00.000Z" };
  const data = [
    { ...hit, kind: "message" as const, id: wamid, seq: null },
    { ...hit, kind: "run" as const, id: "run-of-549112345", seq: null },
    { ...hit, kind: "event" as const, id: "42", seq: 42 },
    { ...hit, kind: "event" as const, id: "5491123456789", seq: 42 },
  ];
  const masked = maskAnswer(searchSchema, { data, more: false });
  const hex = "[0-9a-f]{12}$";
  expect(masked.data.map(({ id, label }) => [id, label])).toEqual([
    [expect.stringMatching(`^wamid:${hex}`), "[phone]"],
    [expect.stringMatching(`^run:${hex}`), "[phone]"],
    ["42", "[phone]"],
    [expect.stringMatching(`^event:${hex}`), "[phone]"],
  ]);
});
