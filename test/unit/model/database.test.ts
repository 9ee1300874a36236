import { expect, test } from "vitest";
import { type DatabaseFacts, databaseRisks } from "../../../src/model/database.ts";
import { soundDatabase } from "../../harness/database-facts.ts";

const open = {
  pid: 7,
  application: "psql",
  state: "idle in transaction",
  seconds: 120,
  hasWritten: true,
};

test.each<Partial<DatabaseFacts>>([
  {},
  { synchronousStandbys: "*", standbys: 2, connectedSynchronous: 1 },
  {
    synchronousStandbys: "*",
    standbys: 2,
    connectedSynchronous: 1,
    synchronousCommit: "remote_write",
  },
  { synchronousStandbys: "*", standbys: 1, connectedSynchronous: null },
  { transaction: { ...open, seconds: 50 } },
  { transaction: { ...open, seconds: 500, hasWritten: false } },
])("finds no risk in %j", (facts) => {
  expect(databaseRisks({ ...soundDatabase, ...facts })).toEqual([]);
});

test.each<[Partial<DatabaseFacts>, string, string]>([
  [{ fsync: false }, "database-unsafe", "fsync is off"],
  [{ fullPageWrites: false }, "database-unsafe", "full_page_writes is off"],
  [{ synchronousCommit: "off" }, "database-unsafe", "synchronous_commit is off"],
  [{ standbys: 1 }, "database-standby", "standbys of PostgreSQL are asynchronous"],
  [
    { standbys: 1, connectedSynchronous: 1, synchronousStandbys: "*", synchronousCommit: "local" },
    "database-standby",
    "do not wait",
  ],
  [
    { standbys: 1, synchronousStandbys: "other" },
    "database-strained",
    "No synchronous standby is connected",
  ],
  [{ connectionsLeft: 3 }, "database-strained", "3 connections left"],
  [
    { transaction: open },
    "database-strained",
    "Session 7 of psql (idle in transaction) has had a writing transaction open for 2 min: listeners",
  ],
  [
    { transaction: { ...open, seconds: 900, hasWritten: false } },
    "database-strained",
    "has had a transaction open for 15 min: deleted rows",
  ],
  [{ skewMs: -3_600_000 }, "database-strained", "60 min behind this host's"],
  [{ roundTripMs: 80 }, "database-strained", "answers in 80 ms"],
])("%j is %s: %s", (facts, condition, text) => {
  expect(databaseRisks({ ...soundDatabase, ...facts })).toEqual([
    expect.objectContaining({ condition, text: expect.stringContaining(text) }),
  ]);
});

test("reports each risk of a server that has several", () => {
  const found = databaseRisks({
    ...soundDatabase,
    fsync: false,
    synchronousCommit: "off",
    standbys: 1,
  });
  expect(found.map(({ of }) => of)).toEqual(["fsync", "synchronous_commit", "standbys"]);
});
