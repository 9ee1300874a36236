import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { assessClock, probe } from "../../../src/cli/doctor/network.ts";
import { assessReload, assessVersion } from "../../../src/cli/doctor/relay.ts";
import { assessAttention, assessBacklog } from "../../../src/cli/doctor/report.ts";
import { assessSecrets, checkReaders } from "../../../src/cli/doctor/settings.ts";
import { assessSpace, assessVersions } from "../../../src/cli/doctor/store.ts";
import { bytesText } from "../../../src/cli/output.ts";
import { loadSettings } from "../../../src/config/load.ts";
import type { AttentionKind } from "../../../src/model/attention.ts";
import { spanText } from "../../../src/model/unit-text.ts";
import type { Presence } from "../../../src/store/postgres/server.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

const MiB = 1024 ** 2;
const GiB = 1024 ** 3;
const month = 30 * 86_400_000;

test.each([
  ["plenty", 100 * GiB, "ok"],
  ["little", 400 * MiB, "warn"],
  ["next to nothing", 10 * MiB, "fail"],
])("disk space: %s", (_, freeBytes, level) => {
  expect(assessSpace(freeBytes, MiB).level).toBe(level);
});

test.each([
  ["postgres://u@127.0.0.1/d", "holds no secret itself"],
  ["postgres://u:of%20postgres@127.0.0.1/d", "holds 1 secret in clear"],
])("a URL in the settings file, which everybody may read: %s", (url, told) => {
  const path = join(tempFolder(), "relay.yaml");
  writeFileSync(path, JSON.stringify({ storage: { driver: "postgres", url }, routes: [] }));
  chmodSync(path, 0o644);
  expect(checkReaders(path, loadSettings(path, {})).message).toContain(told);
});

test.each<[string, number | null, number, string]>([
  ["nothing known", null, 0, "ok"],
  ["a destination 29 s off", -29_000, 0, "ok"],
  ["a destination 31 s off", -31_000, 0, "warn"],
  ["the last event 29 s ahead", null, 29_000, "ok"],
  ["the last event 31 s ahead", null, 31_000, "warn"],
])("clock: %s", (_, skewMs, aheadMs, level) => {
  expect(assessClock([{ name: "a", skewMs }], aheadMs).map((found) => found.level)).toEqual([
    level,
  ]);
});

const hour = 3_600_000;
const iso = (at: number) => new Date(at).toISOString();

test.each([
  ["one secret, in use", [1], ["in use"]],
  ["nothing has come yet", [null, null], ["nothing yet", "nothing yet"]],
  ["the new one is not given to the service", [null, 1], ["does not sign with it yet", "in use"]],
  ["the old one has just stopped", [1, 23], ["in use", "keep it"]],
  [
    "the old one stopped three days ago",
    [1, 72],
    ["in use", "nothing for 3 days, while another one did (before that 7 events"],
  ],
  [
    "a leftover that never proved anything",
    [1, null],
    ["in use", "safe to drop, unless it is the new one"],
  ],
] as const)("rotation: %s", (_, silentHours, says) => {
  const now = 1_800_000_000_000;
  const uses = silentHours.map((hours, n) => {
    const at = hours === null ? null : iso(now - hours * hour);
    const secret = String(n).repeat(12);
    const place = `sources.main.signature.secrets[${n}]`;
    return {
      source: "main",
      secret,
      place,
      events: 7,
      duplicates: 0,
      firstAt: at && iso(now - month),
      lastAt: at,
    };
  });
  // Of another source, or no longer in the settings: says nothing about these.
  const other = {
    source: "other",
    secret: "0123456789ab",
    events: 9,
    duplicates: 0,
    firstAt: iso(now),
    lastAt: iso(now),
  };
  uses.push({ ...other, place: "sources.other.signature.secrets[0]" });
  const removed = { ...other, source: "main", place: null };
  const found = assessSecrets([...uses, removed], now)
    .map(({ message }) => message)
    .filter((message) => message.startsWith("main"));
  expect(found).toEqual(
    says.map((text, n) =>
      expect.stringMatching(
        new RegExp(`^main: secrets\\[${n}\\] \\([0-9a-f]{12}\\) .*${text.replace("(", "\\(")}`),
      ),
    ),
  );
});

test("backlog: what waits, without the dead letters", () => {
  const groups = [
    { state: "waiting" as const, count: 1_650 },
    { state: "held" as const, count: 2 },
    { state: "dead" as const, count: 5 },
  ];
  expect(assessBacklog(groups)).toEqual({
    check: "backlog",
    level: "ok",
    message: "1,652 deliveries wait",
  });
});

test("what needs action is listed in the words of the relay, with the command that helps", () => {
  const entry = (
    kind: AttentionKind,
    severity: "error" | "warning",
    subject: string | null,
    text: string,
  ) => ({
    kind,
    severity,
    subject,
    text,
  });
  const found = assessAttention([
    entry("destination-stopped", "error", "crm", "stopped"),
    entry("destination-failing", "warning", "crm", "late"),
    entry("dead-letters", "warning", "crm", "dead"),
    entry("settings-refused", "warning", null, "refused"),
  ]);
  expect(found.map(({ check, level, message, todo }) => [check, level, message, todo])).toEqual([
    ["destination-stopped", "fail", "stopped", "wamid-relay resume crm"],
    ["destination-failing", "warn", "late", undefined],
    ["dead-letters", "warn", "dead", "wamid-relay replay --route crm"],
    ["settings-refused", "warn", "refused", "wamid-relay reload"],
  ]);
  expect(assessAttention([])).toEqual([
    { check: "attention", level: "ok", message: "nothing needs action" },
  ]);
});

test("the guard against private addresses holds for a probe, and with allowPrivate it gets through", async () => {
  const { url } = await openDownstream();
  const blocked = { level: "fail", message: expect.stringContaining("is not a public address") };
  expect(await probe({ url, allowPrivate: false })).toMatchObject({ finding: blocked });
  expect(await probe({ url, allowPrivate: true })).toMatchObject({ finding: { level: "ok" } });
});

test("numbers for people", () => {
  expect([0, 1023, 1024, 1.5 * MiB, 100 * GiB].map(bytesText)).toEqual([
    "0 bytes",
    "1023 bytes",
    "1.0 KiB",
    "1.5 MiB",
    "100 GiB",
  ]);
  expect([0, -45_000, 300_000, 9_000_000, 8 * 86_400_000].map(spanText)).toEqual([
    "0 s",
    "45 s",
    "5 min",
    "2.5 h",
    "8 days",
  ]);
});

test("another version is a failure that names both", () => {
  expect(assessVersion("1.0.0", "1.0.0").level).toBe("ok");
  expect(assessVersion("1.0.0", "1.1.0")).toMatchObject({
    level: "fail",
    message: "the running relay has version 1.0.0, and this command has 1.1.0",
  });
});

test("processes of different versions on one store are a warning that names them", () => {
  const presence = (pid: number, version: string, role: Presence["role"] = "both"): Presence => ({
    id: String(pid),
    role,
    host: "here",
    pid,
    version,
    since: 0,
  });
  expect(
    assessVersions([presence(1, "1.0.0"), presence(2, "1.0.0"), presence(3, "1.1.0", "command")]),
  ).toEqual([]);
  expect(
    assessVersions([presence(1, "1.1.0"), presence(2, "1.0.0"), presence(3, "1.1.0")]),
  ).toMatchObject([
    {
      level: "warn",
      message:
        "run different versions: 1.0.0 (process 2 on here); 1.1.0 (process 1 on here, process 3 on here)",
    },
  ]);
});

const status = {
  loadedAt: "2026-11-21T12:00:00.000Z",
  refusedAt: null,
  faults: 0,
  needRestart: [],
};
const refused = { ...status, refusedAt: "2026-11-21T12:05:00.000Z", faults: 1 };
const judge = (
  of: typeof status | typeof refused | { needRestart: string[] },
  isValid = true,
  changed?: string,
) => {
  const { level, message } = assessReload({ ...status, ...of }, isValid, changed);
  return [level, message];
};

test("a refused reload fails while the file is faulty, and warns once it is valid", () => {
  const message =
    "the relay refused the reload at 2026-11-21T12:05:00.000Z: 1 fault; the settings of 2026-11-21T12:00:00.000Z stay in effect";
  expect(judge(refused, false)).toEqual(["fail", message]);
  expect(judge(refused, true, "/etc/relay.yaml")).toEqual(["warn", message]);
});

test("warns about a file newer than the settings in effect, and about settings that wait for a restart", () => {
  expect(judge(status, true, "/etc/.env")).toEqual([
    "warn",
    "/etc/.env was changed after the relay read it at 2026-11-21T12:00:00.000Z",
  ]);
  expect(judge({ needRestart: ["server.port", "log.pii"] })).toEqual([
    "warn",
    "not in effect before a restart: server.port, log.pii",
  ]);
});
