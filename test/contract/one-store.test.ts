// Slow on version 14 of PostgreSQL, because a second server starts for it.
import { openPostgres, openSqlite } from "./one-store.ts";
import { oneStoreBackfillContract } from "./one-store-backfill-contract.ts";
import { oneStoreContract } from "./one-store-contract.ts";
import { oneStoreDerivedContract } from "./one-store-derived-contract.ts";
import { oneStoreExchangesContract } from "./one-store-exchanges-contract.ts";
import { oneStoreNotesContract } from "./one-store-notes-contract.ts";
import { oneStoreParkingContract } from "./one-store-parking-contract.ts";
import { oneStoreQuarantineContract } from "./one-store-quarantine-contract.ts";
import { oneStoreReplayContract } from "./one-store-replay-contract.ts";
import { oneStoreUpkeepContract } from "./one-store-upkeep-contract.ts";

for (const contract of [
  oneStoreContract,
  oneStoreParkingContract,
  oneStoreDerivedContract,
  oneStoreQuarantineContract,
  oneStoreReplayContract,
  oneStoreBackfillContract,
  oneStoreNotesContract,
  oneStoreExchangesContract,
  oneStoreUpkeepContract,
]) {
  contract("SQLite", openSqlite);
  contract("PostgreSQL 18", openPostgres(18));
  contract("PostgreSQL 14", openPostgres(14), ["slow"]);
}
