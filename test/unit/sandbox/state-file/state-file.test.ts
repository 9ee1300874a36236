import { writeFileSync } from "node:fs";
import { join } from "node:path";
import Sqlite from "better-sqlite3";
import { expect, test } from "vitest";
import { openStateFile } from "../../../../src/sandbox/memory.ts";
import { tempFolder } from "../../../harness/temp-folder.ts";

test("what was noted is there after the next start, in the order of first writing, as it was last", async () => {
  const path = join(tempFolder(), "state.db");
  const file = await openStateFile(path);
  const b = { id: "b", n: 1 };
  file.changed("thing", "b", b);
  file.changed("thing", "a", { id: "a" });
  file.changed("thing", "c", { id: "c" });
  await file.written();
  b.n = 2;
  file.changed("thing", "b", b);
  file.changed("thing", "c", null);
  file.changed("other", "b", { id: "b", text: 'á "\u0000' });
  file.close();
  const again = await openStateFile(path);
  expect([...again.records()]).toEqual([
    { kind: "thing", record: { id: "b", n: 2 } },
    { kind: "thing", record: { id: "a" } },
    { kind: "other", record: { id: "b", text: 'á "\u0000' } },
  ]);
  again.close();
  again.close();
});

test("changes of one turn are one transaction; written waits for it", async () => {
  const path = join(tempFolder(), "state.db");
  const file = await openStateFile(path);
  for (let n = 0; n < 1_000; n += 1)
    file.changed("thing", String(n % 10), { id: String(n % 10), n });
  expect([...file.records()]).toEqual([]);
  await file.written();
  expect([...file.records()]).toHaveLength(10);
  await file.written();
  file.close();
});

test("a write that fails rejects written, and is made again with the next change", async () => {
  const path = join(tempFolder(), "state.db");
  const file = await openStateFile(path);
  const bad: Record<string, unknown> = { id: "a" };
  bad["itself"] = bad;
  file.changed("thing", "a", bad);
  await expect(file.written()).rejects.toThrow(/circular/);
  delete bad["itself"];
  file.changed("thing", "b", { id: "b" });
  await file.written();
  expect([...file.records()].map(({ record }) => record.id)).toEqual(["a", "b"]);
  file.close();
});

test("refuses, with one line, what it should not touch", async () => {
  const made = tempFolder();
  const path = (name: string) => join(made, name);
  writeFileSync(
    path("text"),
    "this is no database, but it is long enough to be looked at as one. ".repeat(20),
  );
  const foreign = new Sqlite(path("foreign"));
  foreign.exec("CREATE TABLE precious (n)");
  foreign.close();
  (await openStateFile(path("newer"))).close();
  const newer = new Sqlite(path("newer"));
  newer.pragma("user_version = 99");
  newer.close();
  const held = await openStateFile(path("held"));
  for (const [name, why] of [
    ["text", /is not a sandbox's state file$/],
    ["foreign", /is not a sandbox's state file$/],
    ["newer", /was written by another version of wamid-relay/],
    ["held", /is in use by another sandbox$/],
    ["no/folder", /^cannot open .*no\/folder: /],
  ] as const) {
    const refusal = await openStateFile(path(name)).then(
      () => null,
      (error: Error) => error,
    );
    expect(refusal?.name, name).toBe("SandboxRefused");
    expect(refusal?.message).toMatch(why);
    expect(refusal?.message).not.toContain("\n");
  }
  held.close();
  (await openStateFile(path("held"))).close();
  const untouched = new Sqlite(path("foreign"), { readonly: true });
  expect(untouched.prepare("SELECT name FROM sqlite_schema").pluck().all()).toEqual(["precious"]);
  expect(untouched.pragma("application_id", { simple: true })).toBe(0);
  untouched.close();
});
