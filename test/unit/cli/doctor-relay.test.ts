import { expect, test } from "vitest";
import { assessIdentity, assessVersion } from "../../../src/cli/doctor/relay.ts";
import type { OwnStore } from "../../../src/cli/doctor/store.ts";

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
