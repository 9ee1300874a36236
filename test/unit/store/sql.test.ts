import fc from "fast-check";
import { expect, test } from "vitest";
import { packEventId, unpackEventId } from "../../../src/store/schema/codes.ts";
import { raw, render, sql } from "../../../src/store/sql/sql.ts";

test("a value is hidden from SQLite's planner and numbered for PostgreSQL", () => {
  const query = sql`SELECT ${raw("1", "2")} FROM t WHERE a = ${"x"} AND ${sql`b IN ${[1, 2]}`}${undefined} LIMIT ${5}`;
  expect(render(query, "sqlite")).toEqual({
    text: "SELECT 1 FROM t WHERE a = +? AND b IN (SELECT value FROM json_each(?)) LIMIT +?",
    values: ["x", "[1,2]", 5],
  });
  expect(render(query, "postgres")).toEqual({
    text: "SELECT 2 FROM t WHERE a = $1 AND b = ANY ($2::bigint[]) LIMIT $3",
    values: ["x", [1, 2], 5],
  });
});

test("an event id comes back from its bytes, and no two have the same", () => {
  const id = fc.oneof(fc.uuid(), fc.string({ minLength: 1, maxLength: 20, unit: "binary" }), fc.string({ minLength: 15, maxLength: 16 }));
  fc.assert(
    fc.property(id, id, (one, other) => {
      expect(unpackEventId(packEventId(one).toString("hex"))).toBe(one);
      expect(packEventId(one).equals(packEventId(other))).toBe(one === other);
    }),
  );
});
