import { expect, test } from "vitest";
import { assessIdentity, assessVersion } from "../../../src/cli/doctor/relay.ts";
import { assessSecrets } from "../../../src/cli/doctor/settings.ts";
import type { OwnStore } from "../../../src/cli/doctor/store.ts";
import { parseSettings } from "../../../src/config/load.ts";

const url = "http://127.0.0.1:8080";
const own: OwnStore = {
  storage: { driver: "sqlite", path: "/data/relay.db" },
  isHeld: true,
  users: [{ id: "mine", text: "process 12 on here" }],
};
const answering = (instance: string) => ({ kind: "relay", instance, version: "1.0.0" }) as const;

test("only a relay that uses the store of the settings passes", () => {
  expect(assessIdentity(url, answering("mine"), own)).toBeNull();
  expect(assessIdentity(url, answering("other"), own)).toMatchObject({
    level: "fail",
    message: `another relay answers at ${url} (instance other, version 1.0.0); /data/relay.db is used by process 12 on here (instance mine)`,
  });
  expect(assessIdentity(url, answering("mine"), { ...own, isHeld: false, users: [] })).toMatchObject({
    level: "fail",
    message: expect.stringMatching(/no process uses \/data\/relay\.db$/),
  });
});

test("who uses the store is unknown: the identity is not judged here", () => {
  expect(assessIdentity(url, answering("other"), { ...own, users: null })).toBeNull();
});

test("another version is a failure that names both", () => {
  expect(assessVersion("1.0.0", "1.0.0").level).toBe("ok");
  expect(assessVersion("1.0.0", "1.1.0")).toMatchObject({
    level: "fail",
    message: "the running relay has version 1.0.0, and this command has 1.1.0",
  });
});

test("a secret that the running relay does not have is never to be given to the service yet", () => {
  const signature = { service: "acme", secrets: ["the-new-secret", "the-old-secret"] };
  const text = JSON.stringify({ accounts: { main: {} }, sources: { main: { account: "main", signature } } });
  const { sources } = parseSettings(text, "relay.yaml", {});
  const [fresh, old] = sources["main"]?.signature?.secrets.map((each) => each.fingerprint()) ?? [];
  const now = Date.parse("2026-11-20T08:00:00Z");
  const use = { source: "main", events: 7, duplicates: 0, firstAt: "2026-11-20T07:59:00Z", lastAt: "2026-11-20T07:59:59Z" };
  const unused = { ...use, events: 0, firstAt: null, lastAt: null };
  const judge = (place: string | null, isRunning: boolean) =>
    assessSecrets(
      sources,
      [
        { ...use, secret: old ?? "", place: "sources.main.signature.secrets[1]" },
        { ...unused, secret: fresh ?? "", place },
      ],
      now,
      isRunning,
    )[0];
  expect(judge(null, true)).toMatchObject({ level: "fail", todo: expect.stringMatching(/^reload or restart the relay;/) });
  expect(judge("sources.main.signature.secrets[0]", true)).toMatchObject({
    level: "warn",
    todo: expect.stringContaining("give it to the service"),
  });
  expect(judge(null, false)).toMatchObject({ level: "warn", todo: expect.stringMatching(/^start or reload the relay with it first;/) });
});
