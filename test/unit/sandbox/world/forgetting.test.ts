import { expect, test } from "vitest";
import { createTable } from "../../../../src/sandbox/table.ts";

test("a table forgets its oldest, of each account, with their second keys, and tells the journal", () => {
  const told: string[] = [];
  const journal = {
    changed: (_: string, id: string, record: object | null) =>
      void (record === null && told.push(id)),
  };
  const most = 1_000;
  const table = createTable<{ id: string; account: string; key: string }>("thing", journal, {
    most,
    keyOf: ({ key }) => key,
  });
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

test("what is not over is kept, however old, and looked at no more often for it", () => {
  const most = 640;
  let looks = 0;
  const open = new Set<string>();
  const isOver = ({ id }: { id: string }) => {
    looks += 1;
    return !open.has(id);
  };
  const table = createTable<{ id: string; account: string }>(
    "thing",
    { changed() {} },
    { most, isOver },
  );
  const put = (number: number, isOpen: boolean) => {
    const id = String(number).padStart(6, "0");
    if (isOpen) open.add(id);
    table.put({ id, account: "a" });
  };
  for (let number = 0; number < 2_000; number += 1) put(number, number % 100 === 0);
  const ids = table.list("a").map(({ id }) => id);
  expect(ids).toEqual([...table.all()].map(({ id }) => id));
  expect(ids.slice(0, 13)).toEqual(
    Array.from({ length: 13 }, (_, n) => String(n * 100).padStart(6, "0")),
  );
  expect(table.size).toBeLessThanOrEqual(most + most / 64);

  // All of it open: there is nothing to forget, and each further one does not cost a look at all of
  // them.
  looks = 0;
  for (let number = 2_000; number < 6_000; number += 1) put(number, true);
  expect(table.size).toBeGreaterThan(4_000);
  expect(looks).toBeLessThan((4_000 * 6_000) / (most / 64));
  open.clear();
  for (let number = 6_000; number < 6_100; number += 1) put(number, false);
  expect(table.size).toBeLessThanOrEqual(most + 100);
});
