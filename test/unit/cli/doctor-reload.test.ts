import { expect, test } from "vitest";
import { assessReload } from "../../../src/cli/doctor/relay.ts";

const status = { loadedAt: "2026-11-21T12:00:00.000Z", refusedAt: null, faults: 0, needRestart: [] };
const refused = { ...status, refusedAt: "2026-11-21T12:05:00.000Z", faults: 1 };
const judge = (of: typeof status | typeof refused | { needRestart: string[] }, isValid = true, changed?: string) => {
  const { level, message } = assessReload({ ...status, ...of }, isValid, changed);
  return [level, message];
};

test("ok when the relay read the files as they are", () => {
  expect(judge(status)).toEqual(["ok", "the settings in effect were read at 2026-11-21T12:00:00.000Z"]);
});

test("a refused reload fails while the file is faulty, and warns once it is valid", () => {
  const message =
    "the relay refused the reload at 2026-11-21T12:05:00.000Z: 1 fault; the settings of 2026-11-21T12:00:00.000Z stay in effect";
  expect(judge(refused, false)).toEqual(["fail", message]);
  expect(judge(refused, true, "/etc/relay.yaml")).toEqual(["warn", message]);
});

test("warns about a file newer than the settings in effect, and about settings that wait for a restart", () => {
  expect(judge(status, true, "/etc/.env")).toEqual(["warn", "/etc/.env was changed after the relay read it at 2026-11-21T12:00:00.000Z"]);
  expect(judge({ needRestart: ["server.port", "log.pii"] })).toEqual(["warn", "not in effect before a restart: server.port, log.pii"]);
});
