// Slow on version 14 of PostgreSQL, because a second server starts for it.
import { openPostgres, openSqlite } from "./one-store.ts";
import { oneStoreContract } from "./one-store-contract.ts";

oneStoreContract("SQLite", openSqlite);
oneStoreContract("PostgreSQL 18", openPostgres(18));
oneStoreContract("PostgreSQL 14", openPostgres(14), ["slow"]);
