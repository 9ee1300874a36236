import { expect, test } from "vitest";
import { judgeIdentity, judgeSettings, judgeStores, judgeVersion, type OwnStore } from "../../../src/cli/doctor/relay.ts";
import { judgeSecrets } from "../../../src/cli/doctor/settings.ts";
import { digestDataId } from "../../../src/config/digest.ts";
import { parseSettings } from "../../../src/config/load.ts";

const url = "http://127.0.0.1:8080";
const own: OwnStore = {
  place: "/data/relay.db",
  file: "1:2",
  dataId: "an-id",
  isHeld: true,
  users: [{ id: "mine", text: "process 12 on here" }],
};
const answering = (instance: string) => ({ kind: "relay", instance, version: "1.0.0" }) as const;

test("only a relay that uses the store of the settings passes", () => {
  expect(judgeIdentity(url, answering("mine"), own)).toBeNull();
  expect(judgeIdentity(url, answering("other"), own)).toMatchObject({
    level: "fail",
    message: `another relay answers at ${url} (instance other, version 1.0.0); /data/relay.db is used by process 12 on here (instance mine)`,
  });
  expect(judgeIdentity(url, answering("mine"), { ...own, isHeld: false, users: [] })).toMatchObject({
    level: "fail",
    message: expect.stringMatching(/no process uses \/data\/relay\.db$/),
  });
});

test("who uses the store is unknown: the identity is not judged here", () => {
  expect(judgeIdentity(url, answering("other"), { ...own, users: null })).toBeNull();
});

test.each([
  ["the same", {}, "ok"],
  ["a copy of the file", { file: "1:3" }, "fail"],
  ["other data", { data: digestDataId("another-id") }, "fail"],
  ["not readable now", { data: null }, "skip"],
])("the store of the running relay: %s", (_, difference, level) => {
  const store = { driver: "sqlite", place: "/other/relay.db", data: digestDataId("an-id"), file: "1:2", ...difference } as const;
  const found = judgeStores(url, { store }, own);
  expect(found.level).toBe(level);
  if (level === "fail") expect(found.message).toBe(`the relay at ${url} uses /other/relay.db, and the settings name /data/relay.db`);
});

test("another version is a failure that names both", () => {
  expect(judgeVersion("1.0.0", "1.0.0").level).toBe("ok");
  expect(judgeVersion("1.0.0", "1.1.0")).toMatchObject({
    level: "fail",
    message: "the running relay has version 1.0.0, and this command has 1.1.0",
  });
});

test("other settings: names them, and whether a reload or a restart applies them", () => {
  const judge = (...paths: string[]) => judgeSettings("relay.yaml", paths, 12);
  expect(judge()).toEqual({ check: "running settings", level: "ok", message: "as in relay.yaml" });
  expect(judge("routes.crm.to.url").message).toBe("the running relay has other values than relay.yaml for routes.crm.to.url");
  expect(judge("routes.crm.to.url").todo).toContain("reload");
  expect(judge("server.port", "storage.path").todo).toBe("restart the relay");
  expect(judge("server.port", "routes.crm.to.url").todo).toContain("restart the relay;");
  expect(judge(...Array.from({ length: 20 }, (_, n) => `routes.r${n}.to.url`)).message).toMatch(/routes\.r7\.to\.url and 12 more$/);
});

test("a secret that the running relay does not have is never to be given to the service yet", () => {
  const signature = { service: "acme", secrets: ["the-new-secret", "the-old-secret"] };
  const text = JSON.stringify({ accounts: { main: {} }, sources: { main: { account: "main", signature } } });
  const { sources } = parseSettings(text, "relay.yaml", {});
  const secret = sources["main"]?.signature.secrets[1]?.fingerprint() as string;
  const now = 1_800_000_000_000;
  const uses = [{ source: "main", secret, events: 7, duplicates: 0, firstAt: now - 60_000, lastAt: now - 1_000 }];
  const judge = (known: readonly boolean[] | null) =>
    judgeSecrets(sources, uses, now, known === null ? null : new Map([["main", known]]))[0];
  expect(judge([false, true])).toMatchObject({ level: "fail", todo: expect.stringMatching(/^reload or restart the relay;/) });
  expect(judge([true, true])).toMatchObject({ level: "warn", todo: expect.stringContaining("give it to the service") });
  expect(judge(null)).toMatchObject({ level: "warn", todo: expect.stringMatching(/^start or reload the relay with it first;/) });
});
