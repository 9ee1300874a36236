import { describe, expect, test } from "vitest";
import { compileWhere, type Where, whereSchema } from "../../../src/route/where.ts";

/** The reason for which `where` does not hold on `data`; null when it holds. */
function judge(where: unknown, data: unknown): string | null {
  return compileWhere(whereSchema.parse(where) as Where, "where")(data);
}

/** Data as it comes from the wire, so that `__proto__` is an own property. */
const wire = (text: string): unknown => JSON.parse(text);

describe("what the naive implementation of where-properties.test.ts does not draw", () => {
  test.each<[condition: unknown, holds: unknown[], fails: unknown[]]>([
    ["x", ["x", ["a", "x"]], [{ 0: "x" }, [["x"]]]],
    [null, [null, [null]], [[], {}]],
    [{ $gt: "b" }, ["ba", "c", "é"], ["b", "B", { ba: 1 }]],
    [
      { $gte: "2026-11-01T" },
      ["2026-11-01T00:00:00.000Z", "2027"],
      ["2026-10-31T23:59:59.999Z", 2027],
    ],
    [{ $exists: true }, [[], {}], [undefined]],
    [{ $startsWith: "ab" }, ["abc", ["x", "abc"]], [{ ab: 1 }]],
    [{ $regex: "^a+b$" }, ["aab", ["x", "ab"]], ["xab", "AB"]],
    [{ $regex: "^.$" }, ["😀"], ["😀😀"]],
    [{ $regex: "^\\p{Lu}" }, ["Áb"], ["áb"]],
    // Each operator may find its own element.
    [{ $gt: 5, $lt: 2 }, [[1, 9]], [3, 1, 9, [3]]],
  ])("%j holds for %j, and fails for %j", (condition, holds, fails) => {
    for (const v of holds) expect(judge({ v: condition }, { v }), JSON.stringify(v)).toBeNull();
    for (const v of fails)
      expect(judge({ v: condition }, { v }), JSON.stringify(v)).toMatch(/^where: v \$/);
  });
});

describe("paths", () => {
  const data = wire(
    '{"a": {"b": [{"c": 1}, {"c": 2}]}, "x.y": 3, "list": ["p", "q"], "text": "abc", "": 9}',
  );

  test.each([
    [{ "a.b.1.c": 2 }, true],
    [{ "a.b.2.c": 2 }, false],
    // Steps go into arrays by index only: there is no search through the elements' fields.
    [{ "a.b.c": 2 }, false],
    [{ "list.0": "p" }, true],
    [{ "list.length": { $gte: 2 } }, true],
    [{ "text.length": { $exists: true } }, false],
    [{ "text.0": { $exists: true } }, false],
    // A dot always parts two steps.
    [{ "x.y": 3 }, false],
    [{ "a.b.0.c.d": { $exists: false } }, true],
    [{ "a.": { $exists: true } }, false],
  ])("%j: %s", (where, holds) => {
    expect(judge(where, data) === null).toBe(holds);
  });

  test.each([[null], [undefined], ["text"], [5], [[]]])(
    "nothing is at a path inside %j",
    (root) => {
      expect(judge({ a: { $exists: false }, b: { $ne: 1 } }, root)).toBeNull();
      expect(judge({ a: { $exists: true } }, root)).toBe("where: a $exists");
    },
  );
});

describe("nothing inherited matches", () => {
  const inherited = [
    "constructor",
    "toString",
    "hasOwnProperty",
    "a.__proto__",
    "a.constructor.name",
    "a.__proto__.constructor",
    "list.map",
  ];

  test.each(inherited)("%s is not there", (path) => {
    const data = wire('{"a": {}, "list": []}');
    expect(judge({ [path]: { $exists: true } }, data)).toBe(`where: ${path} $exists`);
    expect(judge({ [path]: { $exists: false } }, data)).toBeNull();
  });

  test("matches data that has such a name itself", () => {
    const data = wire('{"constructor": "x", "a": {"__proto__": {"admin": true}}}');
    expect(judge({ constructor: "x", "a.__proto__.admin": true }, data)).toBeNull();
    expect(judge({ "a.admin": true }, data)).toBe("where: a.admin $eq");
  });
});

describe("conditions around conditions", () => {
  const data = { a: 1, b: 2 };

  test.each<[unknown, string | null]>([
    [{}, null],
    [{ a: 1, b: 2 }, null],
    [{ a: 1, b: 3 }, "where: b $eq"],
    [{ a: 2, b: 3 }, "where: a $eq"],
    [{ $or: [{ a: 9 }, { b: 2 }] }, null],
    [{ $or: [{ a: 9 }, { b: 9 }] }, "where: $or"],
    [{ $and: [{ a: 1 }, { b: 2 }] }, null],
    [{ $and: [{ a: 1 }, { b: { $gt: 2 } }] }, "where: b $gt"],
    [{ $not: { a: 9 } }, null],
    [{ $not: { a: 1 } }, "where: $not"],
    [{ $not: {} }, "where: $not"],
    [{ $not: { $not: { a: 1 } } }, null],
    [{ $and: [{ $or: [{ a: 9 }] }, { b: 9 }] }, "where: $or"],
    [{ $or: [{ $and: [{ a: 1 }, { b: 9 }] }, { $not: { $or: [{ a: 9 }, { b: 9 }] } }] }, null],
    // Paths are judged first, in the order given, whatever stands before them in the file.
    [{ $not: { a: 1 }, b: 9 }, "where: b $eq"],
    [{ $or: [{ a: 9 }], $and: [{ b: 9 }], $not: { a: 1 } }, "where: $or"],
    [{ $and: [{ b: 9 }], $not: { a: 1 } }, "where: b $eq"],
    [{ a: { $lt: 0, $gt: 5, $ne: 1 } }, "where: a $ne"],
  ])("%j: %s", (where, reason) => {
    expect(judge(where, data)).toBe(reason);
  });
});

test("a pattern keeps no position between texts", () => {
  const condition = compileWhere({ v: { $regex: "a" } }, "where");
  expect([1, 2, 3].map(() => condition({ v: "a" }))).toEqual([null, null, null]);
});

test("compares numbers beyond 2^53 after they lost digits (docs/concepts/routing.md)", () => {
  const data = wire('{"id": 9007199254740993}');
  expect(judge({ id: 9007199254740992 }, data)).toBeNull();
  expect(judge({ id: { $in: ["9007199254740993"] } }, data)).toBe("where: id $in");
});
