// Slow on version 14 of PostgreSQL, because a second server starts for it.
import { describe } from "vitest";
import { type OpenStore, openPostgres, openSqlite } from "./one-store.ts";
import { oneStoreBackfillContract } from "./one-store-backfill-contract.ts";
import { oneStoreContract } from "./one-store-contract.ts";
import { oneStoreDerivedContract } from "./one-store-derived-contract.ts";
import { oneStoreExchangesContract } from "./one-store-exchanges-contract.ts";
import { oneStoreNotesContract } from "./one-store-notes-contract.ts";
import { oneStoreParkingContract } from "./one-store-parking-contract.ts";
import { oneStoreQuarantineContract } from "./one-store-quarantine-contract.ts";
import { oneStoreReplayContract } from "./one-store-replay-contract.ts";
import { oneStoreUpkeepContract } from "./one-store-upkeep-contract.ts";

const contracts: Readonly<Record<string, (open: OpenStore) => void>> = {
  "accept, due and settle": oneStoreContract,
  "registration and parking": oneStoreParkingContract,
  "derived ids": oneStoreDerivedContract,
  quarantine: oneStoreQuarantineContract,
  "retry and replay": oneStoreReplayContract,
  backfill: oneStoreBackfillContract,
  "names of requests, cursors, alarms, stops and pauses": oneStoreNotesContract,
  "proxied exchanges": oneStoreExchangesContract,
  retention: oneStoreUpkeepContract,
};

for (const [name, contract] of Object.entries(contracts)) {
  describe(`SQLite: ${name}`, () => contract(openSqlite));
  describe(`PostgreSQL 18: ${name}`, () => contract(openPostgres(18)));
  describe(`PostgreSQL 14: ${name}`, { tags: ["slow"] }, () => contract(openPostgres(14)));
}
