import fc from "fast-check";
import { expect, test } from "vitest";
import { createTable } from "../../../../src/sandbox/table.ts";

interface Thing {
  readonly id: string;
  readonly account: string;
  name: string;
}

function setUp(most?: number) {
  const journal: [id: string, record: object | null][] = [];
  const table = createTable<Thing>(
    "thing",
    { changed: (kind, id, record) => void journal.push([`${kind} ${id}`, record]) },
    { keyOf: ({ name }) => name, ...(most === undefined ? {} : { most }) },
  );
  return { table, journal };
}

test("an account and a key cannot be mixed up with another pair", () => {
  const { table } = setUp();
  table.put({ id: "1", account: "a", name: "b" });
  expect(table.find("ab", "")).toBeUndefined();
  expect(table.find("a", "b")?.id).toBe("1");
});

test("the journal hears of each change, and of each record forgotten", () => {
  const { table, journal } = setUp(2);
  const first = { id: "1", account: "main", name: "ana" };
  table.put(first);
  first.name = "bea";
  table.put(first);
  table.put({ id: "2", account: "main", name: "zoe" });
  table.put({ id: "3", account: "main", name: "eva" });
  expect(journal.map(([what, record]) => [what, record === null])).toEqual([
    ["thing 1", false],
    ["thing 1", false],
    ["thing 2", false],
    ["thing 3", false],
    ["thing 1", true],
  ]);
});

type Order = { what: "put"; id: number; account: string } | { what: "delete"; id: number };

test("agrees with a plain list, whatever is put, put again and deleted", () => {
  const id = fc.integer({ min: 0, max: 9 });
  const order: fc.Arbitrary<Order> = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({
        what: fc.constant("put" as const),
        id,
        account: fc.constantFrom("a", "b"),
      }),
    },
    { weight: 1, arbitrary: fc.record({ what: fc.constant("delete" as const), id }) },
  );
  fc.assert(
    fc.property(fc.array(order, { maxLength: 60 }), fc.constantFrom(3, 100), (orders, most) => {
      const { table } = setUp(most);
      let model: Thing[] = [];
      for (const one of orders) {
        const name = `${one.id}`;
        const before = model.find((record) => record.id === name);
        if (one.what === "delete") {
          table.delete(name);
          model = model.filter((record) => record.id !== name);
        } else {
          const record = before ?? { id: name, account: one.account, name };
          table.put(record);
          if (before === undefined) model = [...model, record];
          if (model.length > most) model = model.slice(1);
        }
        expect([...table.all()]).toEqual(model);
        expect(table.get(name)).toBe(model.find((record) => record.id === name));
        for (const account of ["a", "b"]) {
          expect([...table.list(account)]).toEqual(
            model.filter((record) => record.account === account),
          );
          const found = model.find((record) => record.account === account && record.name === name);
          expect([table.find(account, name), table.of(account, name)]).toEqual([found, found]);
        }
        expect(table.size).toBe(model.length);
      }
    }),
    { numRuns: 300 },
  );
});
