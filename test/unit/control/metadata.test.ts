import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readRegistration } from "../../../src/control/track.ts";
import { messageBody, runBody, trackBody } from "../../../src/model/endpoints/send.ts";
import { bodyLimits, lineLimits, parseBody, parseWithin } from "../../../src/model/json.ts";
import { metadataFault, metadataLimits } from "../../../src/model/tracking.ts";
import { joinFacts } from "../../../src/track/registration.ts";

const nested = (levels: number): Record<string, unknown> =>
  JSON.parse(`${'{"a":'.repeat(levels - 1)}{}${"}".repeat(levels - 1)}`);
const keys = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, n) => [`k${n}`, n]));
const long = (bytes: number) => ({ a: "x".repeat(bytes - '{"a":""}'.length) });

const tooMuch: readonly (readonly [string, Record<string, unknown>, string])[] = [
  ["deep", nested(metadataLimits.levels + 1), "is nested more than 16 levels deep"],
  ["as deep as no recursion reaches", nested(100_000), "is nested more than 16 levels deep"],
  ["many keys", keys(metadataLimits.values + 1), "has more than 1,000 keys and list entries"],
  [
    "a long list",
    { list: Array.from({ length: metadataLimits.values }, () => 0) },
    "has more than 1,000 keys and list entries",
  ],
  ["long", long(metadataLimits.bytes + 1), "is longer than 65,536 bytes as JSON"],
  [
    "long in UTF-8",
    { a: "é".repeat(metadataLimits.bytes / 2) },
    "is longer than 65,536 bytes as JSON",
  ],
];

describe("metadata is bounded", () => {
  test.each(tooMuch)("%s: by the same limit at every endpoint", (_, metadata, fault) => {
    const message = { account: "main", wamid: "wamid.1", metadata };
    const issues = [
      trackBody.safeParse([message]),
      messageBody.safeParse({ to: "+5491155550000", text: "x", metadata }),
      runBody.safeParse({ reference: "r", phone: "+5491155550000", metadata }),
    ].map(({ error }) => JSON.stringify(error?.issues));
    for (const text of issues) expect(text).toContain(fault);
  });

  test.each([
    ["levels", nested(metadataLimits.levels)],
    ["keys", keys(metadataLimits.values)],
    ["bytes", long(metadataLimits.bytes)],
  ])("what is just within it in its %s is taken", (_, metadata) => {
    expect(metadataFault(metadata)).toBeNull();
    expect(trackBody.safeParse({ account: "main", wamid: "wamid.1", metadata }).success).toBe(true);
  });

  test("refuses an NDJSON line by its shape before parsing it, or by its metadata", () => {
    const line = (metadata: string) =>
      readRegistration(`{"account":"main","wamid":"wamid.1","metadata":${metadata}}`);
    expect(line(`${'{"a":'.repeat(4000)}{}${"}".repeat(4000)}`)).toMatchObject({
      error: "is nested more than 32 levels deep",
    });
    expect(line(JSON.stringify(nested(17)))).toMatchObject({
      wamid: "wamid.1",
      error: "metadata: is nested more than 16 levels deep",
    });
    expect(line(`{"a":[${"[],".repeat(lineLimits.values)}[]]}`)).toMatchObject({
      error: "has more than 2,000 values",
    });
    expect(line(JSON.stringify(keys(metadataLimits.values)))).toMatchObject({
      registration: { wamid: "wamid.1" },
    });
  });

  test("several registrations of one message cannot exceed the limit together", () => {
    const stored = {
      id: null,
      reference: null,
      conversationId: null,
      metadata: JSON.stringify(keys(metadataLimits.values)),
      sentAt: null,
    };
    const given = { account: "main", wamid: "wamid.1", metadata: { more: 1 } };
    expect(joinFacts(stored, given)).toEqual({
      conflicts: {
        metadata: {
          stored: "1000 keys",
          given: "more: together it has more than 1,000 keys and list entries",
        },
      },
    });
    expect(joinFacts(stored, { ...given, metadata: { k0: 0 } })).toMatchObject({ isNew: false });
  });
});

describe("the shape of a JSON body is known before it is parsed", () => {
  test("as deep and as many as its values are", () => {
    const deepest = (value: unknown): number =>
      typeof value !== "object" || value === null
        ? 0
        : 1 + Math.max(0, ...Object.values(value).map(deepest));
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 6 }),
        fc.integer({ min: 0, max: 6 }),
        (value, levels) => {
          const read = parseWithin(JSON.stringify(value), { levels, values: 10_000 });
          if (deepest(value) > levels)
            expect(read).toHaveProperty("fault", `is nested more than ${levels} levels deep`);
          else expect(read).toEqual({ value: JSON.parse(JSON.stringify(value)) });
        },
      ),
    );
  });

  test("never fewer values than there are", () => {
    const count = (value: unknown): number =>
      1 +
      (typeof value !== "object" || value === null
        ? 0
        : Object.values(value).reduce((sum: number, one) => sum + count(one), 0));
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        expect(
          parseWithin(JSON.stringify(value), { levels: 100, values: count(value) - 1 }),
        ).toHaveProperty("fault");
        expect(
          parseWithin(JSON.stringify(value), { levels: 100, values: 2 * count(value) }),
        ).toHaveProperty("value");
      }),
    );
  });

  const parsed = (text: string) => parseBody(Buffer.from(text));

  test("brackets in texts do not count, and no text at all makes it fail", () => {
    expect(parsed(JSON.stringify({ a: '[[[[[[[[\\"{{{{'.repeat(100) }))).toBeTruthy();
    expect(() => parsed("[".repeat(200_000))).toThrow(
      "the body is nested more than 32 levels deep",
    );
    expect(() => parsed(`[${"[],".repeat(bodyLimits.values)}[]]`)).toThrow(
      "the body has more than 250,000 values",
    );
    expect(() => parsed('{"a')).toThrow("the body is not valid JSON");
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('"', "\\", "[", "]", "{", "}", ",", ":", "a", "1") }),
        (text) => {
          parseWithin(text, { levels: 3, values: 10 });
        },
      ),
    );
  });
});
