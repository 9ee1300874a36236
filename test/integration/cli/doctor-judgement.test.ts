import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { bytesText, spanText } from "../../../src/cli/doctor/finding.ts";
import { probeDestination } from "../../../src/cli/doctor/network.ts";
import { judgeClock } from "../../../src/cli/doctor/run.ts";
import { checkSettings, judgeSecrets } from "../../../src/cli/doctor/settings.ts";
import { judgeBacklog, judgeSpace } from "../../../src/cli/doctor/store.ts";
import { parseSettings } from "../../../src/config/load.ts";
import type { Settings } from "../../../src/config/schema.ts";
import { openDownstream } from "../../harness/downstream.ts";

const MiB = 1024 ** 2;
const GiB = 1024 ** 3;
const month = 30 * 86_400_000;

test.each([
  ["plenty", { freeBytes: 100 * GiB, usedBytes: GiB, perDayBytes: GiB }, "ok"],
  ["full before retention takes away what comes in", { freeBytes: 20 * GiB, usedBytes: GiB, perDayBytes: GiB }, "warn"],
  ["the same, but as large as it will get", { freeBytes: 20 * GiB, usedBytes: 30 * GiB, perDayBytes: GiB }, "ok"],
  ["full by tomorrow", { freeBytes: GiB, usedBytes: GiB, perDayBytes: GiB }, "fail"],
  ["little, growth unknown", { freeBytes: 400 * MiB, usedBytes: MiB, perDayBytes: null }, "warn"],
  ["little, no growth", { freeBytes: 400 * MiB, usedBytes: MiB, perDayBytes: 0 }, "warn"],
  ["next to nothing", { freeBytes: 10 * MiB, usedBytes: MiB, perDayBytes: 0 }, "fail"],
])("disk space: %s", (_, space, level) => {
  expect(judgeSpace({ ...space, keptMs: month }).level).toBe(level);
});

test.each([
  ["redis://127.0.0.1:6379/0", "holds no secret itself"],
  ["redis://:of%20redis@127.0.0.1:6379/0", "holds 1 secrets in clear"],
])("a Redis URL in the settings file, which everybody may read: %s", (url, told) => {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-doctor-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "relay.yaml");
  writeFileSync(path, JSON.stringify({ storage: { driver: "redis", url }, routes: [] }));
  chmodSync(path, 0o644);
  expect(checkSettings(path, { env: {} }).findings.find(({ check }) => check === "settings file")?.message).toContain(told);
});

const steady = { now: 1_800_000_000_000, jumpedMs: 3, newestEventAt: null, fileChangedAt: null, skews: [] };

test.each([
  ["steady", {}, "ok"],
  ["set while doctor ran", { jumpedMs: -5_000 }, "warn"],
  ["an event of the future", { newestEventAt: steady.now + 60_000 }, "warn"],
  ["a file of the future", { fileChangedAt: steady.now + 60_000 }, "warn"],
  ["a destination 29 s off", { skews: [{ name: "a", skewMs: -29_000 }] }, "ok"],
  ["a destination 31 s off", { skews: [{ name: "a", skewMs: -31_000 }] }, "warn"],
])("clock: %s", (_, signs, level) => {
  expect(judgeClock({ ...steady, ...signs }).map((found) => found.level)).toEqual([level]);
});

const hour = 3_600_000;

test.each([
  ["one secret, in use", [1], ["in use"]],
  ["one secret, silent for long: another is not there", [900], ["in use"]],
  ["nothing has come yet", [null, null], ["nothing yet", "nothing yet"]],
  ["the new one is not given to the service", [null, 1], ["does not sign with it yet", "in use"]],
  ["both come in", [1, 2], ["in use", "keep it"]],
  ["the old one has just stopped", [1, 23], ["in use", "keep it"]],
  ["the old one stopped three days ago", [1, 72], ["in use", "nothing for 3 days, while another one did (before that 7 events"]],
  ["the new one stands second", [72, 1], ["safe to drop", "in use"]],
  ["all is silent, the old one for a day longer", [100, 124], ["in use", "safe to drop"]],
  ["a leftover that never proved anything", [1, null], ["in use", "safe to drop, unless it is the new one"]],
] as const)("rotation: %s", (_, silentHours, says) => {
  const now = 1_800_000_000_000;
  const secrets = silentHours.map((_, n) => `the-secret-number-${n}`);
  const { sources } = parseSettings(
    JSON.stringify({ accounts: { main: {} }, sources: { main: { account: "main", signature: { service: "acme", secrets } } } }),
    "relay.yaml",
    {},
  );
  const secretUses = silentHours.flatMap((hours, n) => {
    const secret = sources["main"]?.signature.secrets[n]?.fingerprint() as string;
    return hours === null ? [] : [{ source: "main", secret, events: 7, duplicates: 0, firstAt: now - month, lastAt: now - hours * hour }];
  });
  // Of another source: says nothing about this one.
  secretUses.push({ source: "other", secret: "0123456789ab", events: 9, duplicates: 0, firstAt: now, lastAt: now });
  const found = judgeSecrets(sources, secretUses, now).map(({ message }) => message);
  expect(found).toEqual(
    says.map((text, n) => expect.stringMatching(new RegExp(`^main: secrets\\[${n}\\] \\([0-9a-f]{12}\\) .*${text.replace("(", "\\(")}`))),
  );
});

test("backlog: what has long been due, but not what is stopped, paused, proxied or merely in a queue", () => {
  const now = 1_800_000_000_000;
  const routes = ["a", "b", "c", "d"].map((name) => ({ name })) as unknown as Settings["routes"];
  const entry = { waiting: 1, held: 1, dead: 0, oldestDueAt: now - 3_600_000, deadSince: null, stopped: null, stoppedAt: null };
  const [...found] = judgeBacklog(
    [
      { route: "a", ...entry },
      { route: "b", ...entry, oldestDueAt: now - 60_000 },
      { route: "c", ...entry, stopped: "410" },
      { route: "d", ...entry },
      { route: "proxy:flows", ...entry },
    ],
    routes,
    new Map(
      ["a", "b", "c", "d"].map((name) => [
        name,
        { state: "closed", pausedUntil: name === "d" ? now + 1_800_000 : null, openUntil: null, failingSince: null },
      ]),
    ),
    now,
  );
  expect(found.map(({ check, level, message }) => [check, level, message])).toEqual([
    ["backlog", "ok", "10 deliveries wait"],
    ["backlog", "warn", "2 deliveries of a wait, one has been due for 60 min"],
    ["destination", "fail", "c is stopped (410); 2 deliveries wait"],
    ["destination", "warn", "d is paused for another 30 min: it answered 429 with Retry-After; 2 deliveries wait"],
  ]);
});

test("the guard against private addresses holds for a probe, and with allowPrivate it gets through", async () => {
  const { url } = await openDownstream();
  expect(await probeDestination(url, false, 3_000)).toEqual({ reached: false, error: expect.stringContaining("is not a public address") });
  expect(await probeDestination(url, true, 3_000)).toMatchObject({ reached: true });
});

test("numbers for people", () => {
  expect([0, 1023, 1024, 1.5 * MiB, 100 * GiB].map(bytesText)).toEqual(["0 bytes", "1023 bytes", "1.0 KiB", "1.5 MiB", "100 GiB"]);
  expect([0, -45_000, 300_000, 9_000_000, 8 * 86_400_000].map(spanText)).toEqual(["0 s", "45 s", "5 min", "2.5 h", "8 days"]);
});
