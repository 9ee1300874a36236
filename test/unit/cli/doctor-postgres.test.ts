import { expect, test } from "vitest";
import { judgePostgres } from "../../../src/cli/doctor/postgres.ts";
import type { ServerFacts } from "../../../src/store/postgres/server-facts.ts";

const good: ServerFacts = {
  version: 180_004,
  versionText: "18.4",
  isReplica: false,
  fsync: true,
  fullPageWrites: true,
  synchronousCommit: "on",
  synchronousStandbys: "",
  standbys: 0,
  connectionsLeft: 80,
  longestTransaction: null,
  skewMs: 10,
  roundTripMs: 1,
  bytes: 2_000_000,
};
const judge = (facts: Partial<ServerFacts>) => judgePostgres("db", { ...good, ...facts });

test("finds nothing wrong with a server that waits for its disk", () => {
  expect(judge({}).map(({ level }) => level)).toEqual(["ok", "ok", "ok", "ok"]);
});

test.each([
  [{ version: 130_012, versionText: "13.12" }, "fail", "db is version 13.12"],
  [{ isReplica: true }, "fail", "read-only replica"],
  [{ roundTripMs: 80 }, "warn", "answers in 80 ms"],
  [{ fsync: false }, "fail", "fsync is off"],
  [{ fullPageWrites: false }, "fail", "full_page_writes is off"],
  [{ synchronousCommit: "off" }, "fail", "synchronous_commit is off"],
  [{ standbys: 1 }, "warn", "standbys are asynchronous"],
  [{ connectionsLeft: 3 }, "warn", "3 connections left"],
  [{ longestTransaction: { seconds: 900, pid: 7, application: "psql", state: "idle in transaction" } }, "warn", "session 7 of psql"],
  [{ skewMs: -3_600_000 }, "warn", "60 min behind"],
] as const)("%j: %s", (facts, level, message) => {
  expect(judge(facts).filter((finding) => finding.level !== "ok")).toEqual([
    expect.objectContaining({ level, message: expect.stringContaining(message) }),
  ]);
});
