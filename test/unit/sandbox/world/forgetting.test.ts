import { expect, test } from "vitest";
import { createTable } from "../../../../src/sandbox/world/table.ts";

test("a table forgets its oldest, of each account, with their second keys, and tells the journal", () => {
  const told: string[] = [];
  const journal = { changed: (_: string, id: string, record: object | null) => void (record === null && told.push(id)) };
  const most = 1_000;
  const table = createTable<{ id: string; account: string; key: string }>("thing", journal, { most, keyOf: ({ key }) => key });
  const idOf = (number: number) => String(number).padStart(6, "0");
  for (let number = 0; number < 5_000; number += 1) {
    table.put({ id: idOf(number), account: number % 3 === 0 ? "a" : "b", key: `key ${number}` });
    expect(table.size).toBeLessThanOrEqual(most * 1.02);
  }
  expect(table.size).toBeGreaterThanOrEqual(most);
  const kept = [...table.all()].map(({ id }) => id);
  const first = 5_000 - table.size;
  expect(kept).toEqual(Array.from({ length: table.size }, (_, at) => idOf(first + at)));
  expect(told).toEqual(Array.from({ length: first }, (_, number) => idOf(number)));
  const listed = [...table.list("a"), ...table.list("b")].map(({ id }) => id);
  expect(listed.sort()).toEqual(kept);
  expect(table.list("a").map(({ id }) => id)).toEqual(kept.filter((id) => Number(id) % 3 === 0));
  const account = (first - 1) % 3 === 0 ? "a" : "b";
  expect(table.find(account, `key ${first - 1}`)).toBeUndefined();
  expect(table.find(first % 3 === 0 ? "a" : "b", `key ${first}`)).toBeDefined();
});
