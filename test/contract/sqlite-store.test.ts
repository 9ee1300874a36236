import { historyContract } from "./history-contract.ts";
import { openSqliteSubject } from "./sqlite-subject.ts";
import { storeContract } from "./store-contract.ts";

storeContract("SQLite", openSqliteSubject);
historyContract(openSqliteSubject);
