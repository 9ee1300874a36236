import { describe, expect, test } from "vitest";
import { compileWhere, type Where, whereSchema } from "../../../src/route/where.ts";

/** The reason for which `where` does not hold on `data`; null when it holds. */
function judge(where: unknown, data: unknown): string | null {
  return compileWhere(whereSchema.parse(where) as Where, "where")(data);
}

/** Data as it comes from the wire, so that `__proto__` is an own property. */
const wire = (text: string): unknown => JSON.parse(text);

describe("each operator, on what holds and what does not", () => {
  const cases: [condition: unknown, holds: unknown[], fails: unknown[]][] = [
    // biome-ignore format: one line for each condition
    ["x", ["x", ["a", "x"]], ["X", "xx", 1, null, undefined, [], ["a"], { 0: "x" }, [["x"]]]],
    [5, [5, 5.0, [5]], ["5", 6, true, undefined, null]],
    [true, [true, [false, true]], [false, 1, "true", undefined]],
    [null, [null, [null]], [undefined, 0, "", false, [], {}]],
    [{ $eq: "x" }, ["x", ["x"]], ["y", undefined]],
    [{ $eq: null }, [null], [undefined, 0]],
    [{ $ne: "x" }, ["y", undefined, null, 1, [], ["y"], {}], ["x", ["y", "x"]]],
    [{ $ne: null }, [undefined, 0, ""], [null, [1, null]]],
    [{ $in: ["x", 5, null] }, ["x", 5, null, ["z", 5]], ["5", "y", undefined, [], ["z"], false]],
    [{ $gt: 5 }, [5.1, 6, [1, 9]], [5, 4, "6", true, null, undefined, [], ["9"], {}]],
    [{ $gt: "b" }, ["ba", "c", "é"], ["b", "a", "B", 9, null, undefined]],
    [{ $gte: 5 }, [5, 6, [5]], [4.9, "5", undefined, null]],
    [{ $gte: "2026-11-01T" }, ["2026-11-01T00:00:00.000Z", "2027"], ["2026-10-31T23:59:59.999Z", 2027, undefined]],
    [{ $lt: 5 }, [4.9, -1, [9, 1]], [5, "4", null, undefined, false, []]],
    [{ $lt: "b" }, ["a", "", "B"], ["b", "c", 1, undefined]],
    [{ $lte: 5 }, [5, 4], [5.1, "5", null, undefined]],
    [{ $exists: true }, ["", 0, null, false, [], {}], [undefined]],
    [{ $exists: false }, [undefined], ["", 0, null, false, [], {}]],
    [{ $startsWith: "ab" }, ["ab", "abc", ["x", "abc"]], ["AB", "cab", "a", 12, undefined, null, { ab: 1 }]],
    [{ $startsWith: "1" }, ["12"], [12]],
    [{ $endsWith: "yz" }, ["yz", "xyz", ["xyz", 1]], ["yzx", "YZ", undefined, null]],
    [{ $regex: "^a+b$" }, ["ab", "aab", ["x", "ab"]], ["b", "xab", "AB", 1, null, undefined]],
    [{ $regex: "b" }, ["abc"], ["ac"]],
    [{ $regex: "^.$" }, ["😀"], ["😀😀"]],
    [{ $regex: "^\\p{Lu}" }, ["Áb"], ["áb"]],
    [{ $regex: "1" }, ["1"], [1]],
    [{ $gte: 1, $lt: 5 }, [1, 4.9], [0, 5]],
    // Each operator may find its own element.
    [{ $gt: 5, $lt: 2 }, [[1, 9]], [3, 1, 9, [3]]],
    [{ $exists: true, $ne: null }, [0, ""], [null, undefined]],
  ];

  for (const [condition, holds, fails] of cases) {
    describe(JSON.stringify(condition), () => {
      for (const value of holds) {
        test(`holds for ${JSON.stringify(value)}`, () => expect(judge({ v: condition }, { v: value })).toBeNull());
      }
      for (const value of fails) {
        test(`fails for ${JSON.stringify(value)}`, () => expect(judge({ v: condition }, { v: value })).toMatch(/^where: v \$/));
      }
    });
  }
});

describe("paths", () => {
  const data = wire('{"a": {"b": [{"c": 1}, {"c": 2}]}, "x.y": 3, "list": ["p", "q"], "text": "abc", "": 9}');

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

  test.each([[null], [undefined], ["text"], [5], [[]]])("nothing is at a path inside %j", (root) => {
    expect(judge({ a: { $exists: false }, b: { $ne: 1 } }, root)).toBeNull();
    expect(judge({ a: { $exists: true } }, root)).toBe("where: a $exists");
  });
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
