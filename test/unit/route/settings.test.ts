import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { matchSchema, routingSchema } from "../../../src/route/settings.ts";

function faults(match: unknown): string[] {
  const issues = matchSchema.safeParse(match).error?.issues ?? [];
  return issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
}

describe("a fault in a condition is named at its place", () => {
  const operators = "$eq $ne $in $gt $gte $lt $lte $exists $startsWith $endsWith $regex";
  const notAnOperator = `is not an operator (${operators}); inner fields are written with dots`;
  const noCondition = "is not a condition (paths with values or operators, $or, $and, $not)";

  test.each([
    ["{ status: { $eqq: 1 } }", [`where.status.$eqq: ${notAnOperator}`]],
    ["{ a: { b: 1 } }", [`where.a.b: ${notAnOperator}`]],
    [
      "{ $foo: [] }",
      ["where.$foo: is not known ($or, $and and $not stand here, other operators under a path)"],
    ],
    ["{ $eq: 1 }", ["where.$eq: stands under a path, as in { status: { $eq: … } }"]],
    ["{ a: {} }", [`where.a: has no operator (${operators})`]],
    ["{ a: [1, 2] }", ["where.a: is a list; for one of several values use $in"]],
    ["{ a: .nan }", ["where.a: must be text, a number, true, false, null or operators"]],
    ["{ a: { $gt: true } }", ["where.a.$gt: must be text or a number"]],
    ["{ a: { $in: [] } }", ["where.a.$in: is empty, so that nothing could match"]],
    ["{ a: { $in: [[1]] } }", ["where.a.$in.0: must be text, a number, true, false or null"]],
    ["{ a: { $exists: yes please } }", ["where.a.$exists: must be true or false, not text"]],
    ["{ $or: [] }", ["where.$or: is empty"]],
    ["{ $and: { a: 1 } }", ["where.$and: must be a list of conditions"]],
    ["{ $not: 5 }", [`where.$not: ${noCondition}`]],
    ["[{ a: 1 }]", [`where: ${noCondition}`]],
    ["text", [`where: ${noCondition}`]],
    // zod would drop this key, and with it the condition.
    ["{ __proto__: 1, a: 2 }", ["where.__proto__: is not a path"]],
    ["{ '': 1 }", ["where.: is not a path"]],
    [
      "{ $or: [{ a: 1 }, { b: { $gt: null, $lte: [] } }], $not: { $and: [{ c: { $x: 1 } }] }, d: [] }",
      [
        "where.$or.1.b.$gt: must be text or a number",
        "where.$or.1.b.$lte: must be text or a number",
        `where.$not.$and.0.c.$x: ${notAnOperator}`,
        "where.d: is a list; for one of several values use $in",
      ],
    ],
  ])("%s", (yaml, expected) => {
    expect(faults({ where: parse(yaml) })).toEqual(expected);
    expect(faults({ metadata: parse(yaml) })).toEqual(
      expected.map((line) => line.replace(/^where/, "metadata")),
    );
  });

  test("reports an invalid regular expression with the engine's reason", () => {
    expect(faults({ where: { $not: { a: { $regex: "(" } } } })).toEqual([
      "where.$not.a.$regex: is not a regular expression: Unterminated group",
    ]);
    // An escape without meaning is a typing error under the flag u.
    expect(faults({ where: { a: { $regex: "\\-" } } })).toHaveLength(1);
    expect(faults({ where: { a: { $regex: "\\p{Lu}" } } })).toEqual([]);
  });
});

test("reports all other faults of match together", () => {
  expect(
    faults({
      events: [],
      statuses: "failed",
      references: [""],
      unheard: 1,
      where: { a: { $eqq: 1 } },
    }),
  ).toHaveLength(5);
});

test("keeps a valid condition unchanged", () => {
  const where = {
    a: 1,
    b: null,
    "c.d": { $gte: 1, $lt: 5 },
    $or: [{ a: { $in: ["x", 1, true, null] } }, { $not: {} }],
    $and: [{}],
    constructor: "x",
  };
  expect(matchSchema.parse({ where }).where).toEqual(where);
});

test("defaults to every event and no other criterion", () => {
  expect(routingSchema.parse({ name: "r" })).toEqual({
    name: "r",
    match: { events: ["*"] },
    emit: "events",
    truncated: "forward",
  });
});

test("turns error codes into text", () => {
  expect(matchSchema.parse({ errorCodes: [131026, "x"] }).errorCodes).toEqual(["131026", "x"]);
});

test("generates a JSON Schema with the operators", () => {
  const schema = JSON.stringify(z.toJSONSchema(matchSchema, { io: "input" }));
  for (const word of ["$or", "$not", "$regex", "$startsWith"])
    expect(schema).toContain(`"${word}"`);
});
