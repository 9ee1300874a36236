import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Rules } from "../../src/store/port.ts";
import { openSqliteStore } from "../../src/store/sqlite/open.ts";
import type { ContractSubject } from "./contract-store.ts";
import { contractOf } from "./contract-store.ts";

const quiet = { committed: () => {}, failed: () => {} };

/** The SQLite engine's store on a file in a temporary folder. */
export async function openSqliteSubject(
  rules: Rules,
): Promise<ContractSubject & { readonly path: string; close(): Promise<void> }> {
  const folder = mkdtempSync(join(tmpdir(), "store-contract-"));
  const path = join(folder, "relay.db");
  const contracted = () => contractOf({ store, read: store.look, snapshot: store.look });
  let store = openSqliteStore(path, rules, quiet);
  let isOpen = true;
  async function close(): Promise<void> {
    if (isOpen) await store.close();
    isOpen = false;
  }
  return {
    path,
    /** The file stays until `end`. */
    close,
    store: contracted(),
    async reopen(other = rules) {
      await store.close();
      store = openSqliteStore(path, other, quiet);
      return contracted();
    },
    async end() {
      await close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
