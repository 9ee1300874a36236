import { expect, test } from "vitest";
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
