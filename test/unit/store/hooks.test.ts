import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { openSqliteStore } from "../../../src/store/sqlite/open.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

let folder: string;
beforeEach(() => {
  folder = tempFolder();
});

test("regression: a registration's conflict is told to who asked, and does not count as a failing store", async () => {
  const failures: unknown[] = [];
  const committed: number[] = [];
  const hooks = {
    committed: (_ms: number, writes: number) => void committed.push(writes),
    failed: (error: unknown) => void failures.push(error),
  };
  const store = openSqliteStore(join(folder, "relay.db"), rulesFor([{ name: "all" }]), hooks);
  await store.register([{ account: "main", wamid: "w", reference: "one" }], start);
  await expect(
    store.register([{ account: "main", wamid: "w", reference: "two" }], start),
  ).rejects.toMatchObject({ code: "conflict" });
  expect(failures).toEqual([]);
  expect(committed).toEqual([1]);
  await store.accept(anEvent({ wamid: "w" }));
  expect(committed).toEqual([1, 1]);
  await store.close();
});
