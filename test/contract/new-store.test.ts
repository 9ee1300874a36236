import { describe } from "vitest";
import { historyContract } from "./history-contract.ts";
import { onPostgres, onSqlite } from "./new-store.ts";
import { storeContract } from "./store-contract.ts";

for (const [name, open] of [
  ["SQLite", onSqlite],
  ["PostgreSQL", onPostgres],
] as const)
  describe(`the new tables on ${name}`, () => {
    storeContract(name, open);
    historyContract(open);
  });
