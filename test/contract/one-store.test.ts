// Slow on version 14 of PostgreSQL, because a second server starts for it.
import { openPostgres, openSqlite } from "./one-store.ts";
import { oneStoreContract } from "./one-store-contract.ts";
import { oneStoreParkingContract } from "./one-store-parking-contract.ts";

for (const contract of [oneStoreContract, oneStoreParkingContract]) {
  contract("SQLite", openSqlite);
  contract("PostgreSQL 18", openPostgres(18));
  contract("PostgreSQL 14", openPostgres(14), ["slow"]);
}
