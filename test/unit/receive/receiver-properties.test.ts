import { createHmac } from "node:crypto";
import { Agent, createServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { errorCodes } from "../../../src/model/errors.ts";
import {
  fieldsSchema,
  type QuarantinedBody,
  type ReceivedEvent,
} from "../../../src/model/event.ts";
import { Secret } from "../../../src/model/secret.ts";
import { WebhookRequest } from "../../../src/receive/http.ts";
import type { InboundSource } from "../../../src/receive/inbound-source.ts";
import { createReceiver, type Receiver } from "../../../src/receive/receiver.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";
import { longestWaitMs, until } from "../../harness/until.ts";

const secret = "property-secret";
const source = (name: string, kind: InboundSource["kind"]): InboundSource => ({
  name,
  account: "main",
  kind,
  mode: "ack",
  signature: { service: "acme", secrets: [new Secret(secret)] },
  fields: fieldsSchema.parse({}),
});

const events: ReceivedEvent[] = [];
const bodies: QuarantinedBody[] = [];
const failures: unknown[] = [];
const outcomes: string[] = [];
/** What storing an event waits for, or fails with. */
let storing: (event: ReceivedEvent) => Promise<void> = async () => {};
let receiver: Receiver;
const agent = new Agent({ keepAlive: true });
// Without a deadline for idle connections, which could end one while the next request is on its
// way.
const server = createServer(
  { IncomingMessage: WebhookRequest, keepAliveTimeout: 0 },
  (request, response) => {
    if (!receiver.handle(request, response)) response.writeHead(404, { "content-length": 0 }).end();
  },
);

const open = (bodyLimit: number): Receiver =>
  createReceiver({
    sources: [source("main", "events"), source("flows", "automation-request")],
    accepting: {
      async event(event) {
        await storing(event);
        const known = events.some(({ envelope }) => envelope.id === event.envelope.id);
        events.push(event);
        return { result: known ? "duplicate" : "accepted" };
      },
      async quarantine(body) {
        bodies.push(body);
        return { result: "quarantined" };
      },
      proxy: () => Promise.reject(new Error("no source proxies")),
    },
    now: () => 1_800_000_000_000,
    address: () => "192.0.2.1",
    limits: {
      bodyLimit,
      maxInFlight: 10,
      badSignatureLimit: 1_000_000,
      requestTimeout: longestWaitMs,
    },
    hooks: {
      received: (_source, outcome) => outcomes.push(outcome),
      ended() {},
      refused() {},
      quarantined() {},
      failed: (_source, error) => failures.push(error),
    },
  });

beforeAll(async () => {
  receiver = open(4096);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});

afterAll(() => {
  agent.destroy();
  server.close();
});

interface Given {
  readonly status: number;
  readonly body: { status?: string; error?: string; code?: string };
}

function post(
  path: string,
  method: string,
  body: Buffer,
  headers: Record<string, string>,
): Promise<Given> {
  return new Promise((resolve, reject) => {
    const { port } = server.address() as AddressInfo;
    const request = httpRequest(
      {
        port,
        host: "127.0.0.1",
        path,
        method,
        headers: { ...headers, "content-length": body.length },
        agent,
      },
      (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            body: JSON.parse(Buffer.concat(chunks).toString() || "{}") as Given["body"],
          }),
        );
      },
    );
    request.on("error", reject);
    request.end(body);
  });
}

const sign = (body: Buffer) => `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;

const anyBytes = fc.uint8Array({ maxLength: 5_000 }).map((bytes) => Buffer.from(bytes));
/** Like an envelope, with a field or two spoilt or missing. */
const mostly = <T, U>(usual: fc.Arbitrary<T>, other: fc.Arbitrary<U>) =>
  fc.oneof({ weight: 6, arbitrary: usual }, { weight: 1, arbitrary: other });
const dataKey = fc.oneof(
  fc.constantFrom("wamid", "status", "errorCode", "runId", "error", "__proto__", "truncated"),
  fc.string(),
);
const nearlyEnvelope = fc
  .record({
    id: mostly(fc.uuid(), fc.oneof(fc.string({ unit: "binary", maxLength: 300 }), fc.jsonValue())),
    event: mostly(fc.constantFrom("message.status", "automation.completed", "x.y"), fc.jsonValue()),
    createdAt: mostly(
      fc.constant("2026-11-21T12:00:00.000Z"),
      fc.oneof(fc.string(), fc.jsonValue()),
    ),
    data: mostly(fc.dictionary(dataKey, fc.jsonValue()), fc.jsonValue()),
  })
  .map((value) => Buffer.from(JSON.stringify(value)));
const anyBody = fc.oneof(
  anyBytes,
  nearlyEnvelope,
  fc.json().map((text) => Buffer.from(text)),
  fc.string({ unit: "binary" }).map((text) => Buffer.from(text)),
);

test("stores any signed bytes as an event or in quarantine, and answers which", async () => {
  await fc.assert(
    fc.asyncProperty(anyBody, async (body) => {
      const [eventsBefore, bodiesBefore] = [events.length, bodies.length];
      const { status, body: said } = await post("/webhooks/main", "POST", body, {
        "x-acme-signature": sign(body),
      });
      if (body.length > 4096) {
        expect([status, said.code]).toEqual([413, "too_large"]);
        expect([events.length, bodies.length]).toEqual([eventsBefore, bodiesBefore]);
        return;
      }
      if (status === 202) {
        expect(bodies.length).toBe(bodiesBefore + 1);
        expect(bodies.at(-1)?.body.equals(body)).toBe(true);
        expect(said).toEqual({ status: "quarantined", error: bodies.at(-1)?.error });
      } else {
        expect([status, said.status]).toEqual([
          200,
          expect.stringMatching(/^(accepted|duplicate)$/),
        ]);
        expect(events.length).toBe(eventsBefore + 1);
        expect(events.at(-1)?.body.equals(body)).toBe(true);
      }
      expect(events.length + bodies.length).toBe(eventsBefore + bodiesBefore + 1);
    }),
    { numRuns: 200 },
  );
  // Both ways were gone; otherwise the generator is at fault.
  expect(events.length).toBeGreaterThan(10);
  expect(bodies.length).toBeGreaterThan(10);
});

test("accepts any signed bytes from an automation", async () => {
  await fc.assert(
    fc.asyncProperty(anyBody, async (body) => {
      if (body.length > 4096) return;
      const before = events.length;
      expect(
        await post("/webhooks/flows", "POST", body, { "x-acme-signature": sign(body) }),
      ).toEqual({
        status: 200,
        body: { status: "accepted" },
      });
      expect(events.length).toBe(before + 1);
      expect(events.at(-1)).toMatchObject({
        envelope: { event: "automation.request" },
        subject: { type: "none" },
      });
      expect(events.at(-1)?.body.equals(body)).toBe(true);
    }),
    { numRuns: 150 },
  );
});

test("stores nothing unsigned and gives documented answers only", async () => {
  const codes: Record<string, { readonly status: number }> = errorCodes;
  const headerValue = fc
    .string({
      unit: fc.constantFrom(..."abcdef0123456789=, sha256ABCDEF_-+/\t\u00e9"),
      maxLength: 200,
    })
    .map((text) => text.trim());
  await fc.assert(
    fc.asyncProperty(
      anyBody,
      fc.oneof(fc.constant(""), headerValue, fc.constant(sign(Buffer.from("another body")))),
      fc.constantFrom(
        "/webhooks/main",
        "/webhooks/flows",
        "/webhooks/main?a=b",
        "/webhooks/",
        "/webhooks/none",
        "/webhooks/toString",
      ),
      fc.constantFrom("POST", "POST", "POST", "PUT", "GET", "DELETE"),
      async (body, signature, path, method) => {
        const before = events.length + bodies.length;
        const { status, body: said } = await post(
          path,
          method,
          method === "GET" ? Buffer.alloc(0) : body,
          {
            "x-acme-signature": signature,
          },
        );
        expect(codes[said.code ?? ""]?.status).toBe(status);
        expect(["bad_signature", "not_found", "method_not_allowed", "too_large"]).toContain(
          said.code,
        );
        expect(events.length + bodies.length).toBe(before);
      },
    ),
    { numRuns: 300 },
  );
});

test("answers only once the event is stored, and 503 when it cannot be", async () => {
  const body = Buffer.from(
    JSON.stringify({ id: "slow", event: "a.b", createdAt: "2026-11-21T12:00:00Z", data: {} }),
  );
  const stored = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  storing = () => {
    begun.resolve();
    return stored.promise;
  };
  let isAnswered = false;
  const answer = post("/webhooks/main", "POST", body, { "x-acme-signature": sign(body) }).finally(
    () => {
      isAnswered = true;
    },
  );
  await begun.promise;
  // Another request is answered meanwhile, so an early answer would have arrived.
  expect(await post("/webhooks/none", "POST", body, {})).toMatchObject({ status: 404 });
  expect(isAnswered).toBe(false);
  stored.resolve();
  expect(await answer).toEqual({ status: 200, body: { status: "accepted" } });

  storing = () => Promise.reject(new StoreUnavailable("the disk is full"));
  expect(
    await post("/webhooks/main", "POST", body, { "x-acme-signature": sign(body) }),
  ).toMatchObject({
    status: 503,
    body: { code: "store_unavailable" },
  });
  expect(outcomes.at(-1)).toBe("unavailable");
  storing = async () => {};
});

test("reads large bodies one after the other, small ones meanwhile, and bounds those that wait", async () => {
  const small = receiver;
  receiver = open(20 * 1024 ** 2);
  const stored = Promise.withResolvers<void>();
  const begun: string[] = [];
  storing = async ({ envelope: { id, event } }) => {
    begun.push(event === "a.b" ? id : event);
    if (id === "large 1") await stored.promise;
  };
  const send = (id: string, bytes: number, path = "/webhooks/main") => {
    const event = { id, event: "a.b", createdAt: "2026-11-21T12:00:00Z", data: {} };
    const body = Buffer.from(JSON.stringify(event).padEnd(bytes));
    return post(path, "POST", body, { "x-acme-signature": sign(body) });
  };
  const first = send("large 1", 200_000);
  await until("the first is being stored", () => begun.length === 1);
  const more = [send("", 200_000, "/webhooks/flows"), send("large 1", 200_000)];
  // Together they are more than may wait.
  const two = ["large 2", "large 3"].map((id) => send(id, 17 * 1024 ** 2));
  expect(await Promise.race(two)).toMatchObject({ status: 503, body: { code: "overloaded" } });
  expect(await send("small", 100)).toMatchObject({ status: 200 });
  expect(begun).toEqual(["large 1", "small"]);
  stored.resolve();
  expect(await first).toMatchObject({ body: { status: "accepted" } });
  expect((await Promise.all(more)).map(({ body }) => body.status)).toEqual([
    "accepted",
    "duplicate",
  ]);
  expect((await Promise.all(two)).map(({ status }) => status).sort()).toEqual([200, 503]);
  expect(begun).toContain("automation.request");
  await until("nothing is in flight", () => receiver.inFlight() === 0);
  [receiver, storing] = [small, async () => {}];
});

test("ends with nothing in flight, no failure, and accepts a good event", async () => {
  const body = Buffer.from(
    JSON.stringify({ id: "last", event: "a.b", createdAt: "2026-11-21T12:00:00Z", data: {} }),
  );
  expect(await post("/webhooks/main", "POST", body, { "x-acme-signature": sign(body) })).toEqual({
    status: 200,
    body: { status: "accepted" },
  });
  await until("nothing is in flight", () => receiver.inFlight() === 0);
  expect(failures).toEqual([]);
  expect(outcomes).not.toContain("failed");
});
