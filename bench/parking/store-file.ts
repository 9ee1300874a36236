import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { createRules, inboundSources } from "../../src/app/rules.ts";
import { parseSettings } from "../../src/config/load.ts";
import type { InboundSource } from "../../src/receive/inbound-source.ts";
import { createRequestVerifier } from "../../src/receive/verify-request.ts";
import { openSqliteStore, type SqliteStore } from "../../src/store/sqlite/open.ts";
import { account, secret, source } from "../events.ts";

/** Bytes of the database file, its log emptied into it. */
export interface FileBytes {
  readonly whole: number;
  /** Of that, pages that are free for use again. */
  readonly free: number;
}

/** The relay's own store with the relay's own rules, on a file of its own in this process. */
export interface StoreFile extends AsyncDisposable {
  readonly store: SqliteStore;
  readonly prove: ReturnType<typeof createRequestVerifier>;
  bytes(): FileBytes;
}

export const parkForMs = 60_000;

export function openStoreFile(): StoreFile {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-bench-"));
  const file = join(folder, "relay.db");
  const settings = parseSettings(
    JSON.stringify({
      accounts: { [account]: {} },
      sources: { [source]: { account, signature: { service: "acme", secrets: [secret] } } },
      tracking: { unknown: "park", parkFor: `${parkForMs}ms` },
      routes: [
        {
          name: "tracked",
          match: { events: ["message.*"], tracked: true },
          to: { url: "https://nobody.example/" },
        },
      ],
    }),
    "relay.yaml",
    {},
  );
  const store = openSqliteStore(
    file,
    createRules(settings, (error) => {
      throw error;
    }),
    {
      committed: () => {},
      failed(error) {
        throw error;
      },
    },
  );
  return {
    store,
    prove: createRequestVerifier(inboundSources(settings)[0] as InboundSource),
    bytes() {
      const db = new Database(file);
      try {
        db.pragma("wal_checkpoint(TRUNCATE)");
        const pages = (name: string) => db.pragma(name, { simple: true }) as number;
        return { whole: statSync(file).size, free: pages("freelist_count") * pages("page_size") };
      } finally {
        db.close();
      }
    },
    async [Symbol.asyncDispose]() {
      await store.close();
      rmSync(folder, { recursive: true });
    },
  };
}
