import { expect, test } from "vitest";
import { makeRelayHere } from "../../harness/relay-here.ts";
import { createDatabase } from "../../setup/database.ts";
import { runOn } from "./run-cli.ts";

interface Checked {
  readonly checks: readonly { readonly check: string; readonly level: string; readonly message: string }[];
}

test("an empty database is as well as a file that is not there yet", async () => {
  await using database = await createDatabase();
  const storage = { driver: "postgres", url: database.url, path: undefined };
  const relay = await makeRelayHere({ settings: { storage } });
  // The servers of tests do not wait for the disk.
  const { checks } = JSON.parse((await runOn(relay, "doctor", "--json", "--offline")).out) as Checked;
  expect(checks.filter(({ check }) => check === "store")).toMatchObject([
    { level: "ok", message: expect.stringContaining('schema relay: there is no store yet; "wamid-relay serve" makes it') },
  ]);
  expect(checks).toContainEqual(
    expect.objectContaining({ check: "database-unsafe", level: "fail", message: expect.stringContaining("fsync is off") }),
  );
});
