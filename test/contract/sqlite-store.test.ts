import { openSqliteSubject } from "./sqlite-subject.ts";
import { storeContract } from "./store-contract.ts";

storeContract("SQLite", openSqliteSubject);
