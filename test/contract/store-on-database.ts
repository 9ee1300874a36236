import type { Database } from "../../src/store/create-store.ts";
import { createCommands, createStore } from "../../src/store/create-store.ts";
import type { Rules } from "../../src/store/port.ts";
import type { OpenSubject } from "./contract-store.ts";
import { contractOf } from "./contract-store.ts";
import {
  emptyShared,
  type OneStore,
  type OpenStore,
  openPostgres,
  openSqlite,
} from "./one-store.ts";

/** The one store behind the contract of the port, on either database. */
export const openNew =
  (open: OpenStore): OpenSubject =>
  async (rules) => {
    const opened = await open(rules);
    let store = contracted(opened, rules);
    return {
      store,
      async reopen(other = rules) {
        await store.leave();
        await store.flush();
        store = contracted(opened, other);
        return store;
      },
      end: async () => opened[Symbol.asyncDispose](),
    };
  };

export const onSqlite = openNew(openSqlite);
export const onPostgres = openNew(openPostgres(18));

/** The port over an opened database. */
export function storeOn(opened: OneStore, rules: Rules) {
  const commands = createCommands({ rules, writer: opened.writer, held: () => null });
  const database: Database = {
    run: async (kind, item) => (await opened.send(() => kind, [item]))[0] as never,
    read: (work) => opened.read(work),
  };
  return { ...createStore(database, { commands, rules }), commands, database };
}

/** Two processes of one database, which is emptied for them. */
export async function openTwo(rules: Rules) {
  const shared = await emptyShared();
  const opened = await shared.open(rules, { writer: "one" });
  const other = await shared.open(rules, { writer: "other" });
  const end = () => shared[Symbol.asyncDispose]();
  return {
    shared,
    opened,
    one: storeOn(opened, rules),
    other: storeOn(other, rules),
    [Symbol.asyncDispose]: end,
  };
}

export function contracted(opened: OneStore, rules: Rules) {
  const { commands: _commands, database: _database, ...store } = storeOn(opened, rules);
  return contractOf({ store, read: opened.read, snapshot: opened.snapshot });
}
