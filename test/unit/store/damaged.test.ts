import { closeSync, copyFileSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { StoreRefused, StoreUnavailable } from "../../../src/store/store-error.ts";
import { anEvent, rulesFor } from "../../contract/store-events.ts";

const pageSize = 4096;
const quiet = { committed: () => {}, failed: () => {} };
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "damaged-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("whichever page is destroyed: refused in one line at the start, or StoreUnavailable when it is needed", async () => {
  const whole = join(folder, "whole.db");
  const rules = rulesFor([{ name: "all" }]);
  const store = openSqliteStore(whole, rules, quiet);
  for (let n = 0; n < 60; n += 1) await store.accept(anEvent({ wamid: `wamid.${n % 20}`, id: `before-${n}` }));
  await store.close();
  const pages = readFileSync(whole).length / pageSize;
  expect(pages).toBeGreaterThan(20);

  const seen = { refused: 0, unavailable: 0, unharmed: 0 };
  for (let page = 0; page < pages; page += 1) {
    const path = join(folder, `page-${page}.db`);
    copyFileSync(whole, path);
    const file = openSync(path, "r+");
    writeSync(file, Buffer.alloc(pageSize, 0xab), 0, pageSize, page * pageSize);
    closeSync(file);
    let damaged: ReturnType<typeof openSqliteStore>;
    try {
      damaged = openSqliteStore(path, rules, quiet);
    } catch (error) {
      expect(error).toBeInstanceOf(StoreRefused);
      expect((error as Error).message).toMatch(/^[^\n]*page-\d+\.db (is|cannot)[^\n]*$/);
      seen.refused += 1;
      continue;
    }
    // What a start reads; then writes that meet old rows and add new ones.
    expect(damaged.stopReason("all")).toBeNull();
    const results = await Promise.allSettled(
      Array.from({ length: 40 }, (_, n) =>
        damaged.accept(anEvent({ wamid: `wamid.${n}`, id: n % 2 === 0 ? `before-${n}` : `after-${n}` })),
      ),
    );
    const failed = results.filter((result) => result.status === "rejected");
    for (const { reason } of failed) expect(reason).toBeInstanceOf(StoreUnavailable);
    if (failed.length > 0) seen.unavailable += 1;
    else seen.unharmed += 1;
    await damaged.close();
  }
  expect(seen.refused).toBeGreaterThan(5);
  expect(seen.unavailable).toBeGreaterThan(3);
});
