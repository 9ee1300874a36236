import { describe } from "vitest";
import { acceptingContract } from "./accepting-contract.ts";
import { onPostgres, onSqlite } from "./new-store.ts";

for (const [name, open] of [
  ["SQLite", onSqlite],
  ["PostgreSQL", onPostgres],
] as const)
  describe(`${name}: the store's contract on the new tables`, () => {
    acceptingContract(open);
  });
