import { storeContract } from "./store-contract.ts";
import { onPostgres } from "./store-on-database.ts";

storeContract("PostgreSQL", onPostgres);
