import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Answer, readAnswer } from "../../../src/service/answers.ts";
import { type Endpoint, endpoints } from "../../../src/service/endpoints.ts";
import { ServiceError } from "../../../src/service/errors.ts";

const now = Date.UTC(2026, 10, 21);
const utf8 = (text: string) => new TextEncoder().encode(text);
const anyEndpoint = fc.constantFrom(...(Object.values(endpoints) as Endpoint<unknown>[]));
const anyStatus = fc.oneof(
  fc.integer({ min: 200, max: 599 }),
  fc.constantFrom(200, 201, 400, 401, 402, 404, 409, 429, 500, 502),
);

/** Bodies that are nearly right, and those that are not at all. */
const anyJson = fc.oneof(
  fc.json().map((text) => JSON.parse(text) as unknown),
  fc.record(
    {
      error: fc.oneof(fc.string(), fc.record({ message: fc.oneof(fc.json(), fc.string()) })),
      cause: fc.oneof(
        fc.constant(null),
        fc.record({ type: fc.oneof(fc.constant("upgrade"), fc.string()), limit: fc.anything() }),
      ),
      id: fc.oneof(fc.string(), fc.integer()),
      wamid: fc.string(),
      status: fc.string(),
      conversationId: fc.string(),
      data: fc.array(fc.record({ id: fc.string() }), { maxLength: 3 }),
      next: fc.oneof(fc.string(), fc.constant(null)),
      runId: fc.string(),
    },
    { requiredKeys: [] },
  ),
);
const anyBytes = fc.oneof(
  fc.uint8Array(),
  fc.string({ unit: "binary" }).map(utf8),
  anyJson.map((json) =>
    utf8(
      JSON.stringify(json, (_key, value: unknown) =>
        typeof value === "bigint" ? String(value) : value,
      ) ?? "",
    ),
  ),
);
const headerValue = fc.oneof(
  fc.string(),
  fc.nat().map(String),
  fc.array(fc.string(), { maxLength: 2 }),
);
const anyHeaders: fc.Arbitrary<Answer["headers"]> = fc.dictionary(
  fc.constantFrom("retry-after", "x-ratelimit-limit", "content-type"),
  headerValue,
);

test("reads any answer as a value or a ServiceError, never throws, and never reads a 4xx or 5xx as a value", () => {
  fc.assert(
    fc.property(
      anyEndpoint,
      anyStatus,
      anyHeaders,
      anyBytes,
      (endpoint, status, headers, bytes) => {
        const read = readAnswer(endpoint, { status, headers, bytes }, now);
        if (read.ok) {
          expect(status).toBeLessThan(300);
          return;
        }
        const { error } = read;
        expect(error).toBeInstanceOf(ServiceError);
        expect(error).toMatchObject({
          status,
          local: false,
          endpoint: endpoint.name,
          kind: error.failure.kind,
        });
        expect(["network", "timeout"]).not.toContain(error.kind);
        if (status < 400 || (status >= 500 && error.kind !== "rejected"))
          expect(error.outcome).toBe("unknown");
        else expect(error.outcome).toBe("not-done");
      },
    ),
    { numRuns: 600 },
  );
});

test("passes any error text through unchanged", () => {
  fc.assert(
    fc.property(
      fc.string({ unit: "binary" }),
      fc.constantFrom(400, 401, 404, 409, 502, 500, 418),
      (text, status) => {
        const read = readAnswer(
          endpoints.me,
          { status, headers: {}, bytes: utf8(JSON.stringify({ error: text, cause: null })) },
          now,
        );
        expect(read.ok ? null : read.error.text).toBe(text);
        expect(read.ok ? "" : read.error.message).not.toMatch(/malformed/);
      },
    ),
  );
});

test("passes unknown fields through unchanged", () => {
  fc.assert(
    fc.property(
      fc.dictionary(
        fc.string().filter((name) => name !== "__proto__"),
        fc.jsonValue(),
      ),
      (extra) => {
        const run = { ...extra, runId: "k" };
        const read = readAnswer(
          endpoints.startRun,
          { status: 201, headers: {}, bytes: utf8(JSON.stringify(run)) },
          now,
        );
        expect(read).toEqual({ ok: true, value: JSON.parse(JSON.stringify(run)) });
      },
    ),
  );
});

describe("the caps' headers", () => {
  const limited = (headers: Answer["headers"], error = "Superaste el límite") => {
    const read = readAnswer(
      endpoints.sendMessage,
      { status: 429, headers, bytes: utf8(JSON.stringify({ error })) },
      now,
    );
    return read.ok ? null : read.error.failure;
  };

  test.each([
    [{ "retry-after": "60", "x-ratelimit-limit": "300" }, 60_000, 300],
    [{ "retry-after": "0" }, 0, null],
    [{ "x-ratelimit-limit": "60" }, null, 60],
    [{ "retry-after": ["30", "60"] }, 30_000, null],
    [{ "retry-after": "soon", "x-ratelimit-limit": "-1" }, null, null],
    [{ "retry-after": "99999999999999999999" }, null, null],
  ])("%j", (headers, retryAfterMs, limit) => {
    expect(limited(headers)).toEqual({ kind: "rate-limited", retryAfterMs, limit, cap: null });
  });

  test("do not hide a used-up quota", () => {
    const cause = { type: "upgrade", reason: "limit", limit: "300000", used: 5 };
    const bytes = utf8(JSON.stringify({ error: "x", cause }));
    const read = readAnswer(
      endpoints.me,
      { status: 429, headers: { "retry-after": "60" }, bytes },
      now,
    );
    // A limit of another type than seen is null: what matters is to stop calling.
    expect(read.ok ? null : read.error.failure).toEqual({
      kind: "quota",
      cause: { ...cause, limit: null },
      until: Date.UTC(2026, 11, 1, 3),
    });
  });
});

test("accepts a byte order mark", () => {
  expect(
    readAnswer(endpoints.me, { status: 200, headers: {}, bytes: utf8('\ufeff{"a":1}') }, now),
  ).toEqual({ ok: true, value: { a: 1 } });
});
