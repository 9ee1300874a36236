import { chownSync, existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import type { EventId } from "../../../src/model/ids.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { makeRelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { jsonOf, runOn, runProcessOn } from "./run-cli.ts";

const event = (seed: string) => createMessages(seed).event();

test("backup copies the store of a running relay; restore puts it elsewhere, where the relay delivers what waited", async () => {
  const downstream = await openDownstream();
  // One attempt: with more, the delivery could be dead before the command has started.
  const once = { breaker: { failures: 1, pause: "1h", longest: "1h" } };
  const relay = await startRelayHere({
    settings: { routes: [routeTo("http://127.0.0.1:9/", { to: once })] },
  });
  const sent = event("backed up");
  await postEvent(relay.webhookUrl, sent);
  const file = join(relay.folder, "backup.db");
  const made = await runProcessOn(relay, "backup", file);
  expect(made).toMatchObject({ code: 0, err: expect.not.stringContaining("wamid-relay:") });
  expect(made.out).toMatch(
    /backup\.db: \d+ KiB in \d+\.\d s, the store as of 2\d{3}-.*Z\naudit of the backup: the sums match; 1 event, 1 delivery/,
  );

  const elsewhere = await makeRelayHere({
    settings: { routes: [routeTo(downstream.url, { name: "everything" })] },
  });
  const restored = await runProcessOn(elsewhere, "restore", file);
  expect(restored).toMatchObject({ code: 0, err: expect.not.stringContaining("wamid-relay:") });
  expect(restored.out).toMatch(
    /backup\.db → .*relay\.db: .*\n.*not in it.*\n.*same webhook-id.*\naudit of the backup: the sums match/,
  );
  await elsewhere.start();
  await until("the delivery that waited is made", () =>
    downstream.arrivals.some(({ eventId }) => eventId === sent.id),
  );
  expect((await postEvent(elsewhere.webhookUrl, sent)).word).toBe("duplicate");
});

test("both print JSON, and refuse to replace a file or a store in one line", async () => {
  const relay = await startRelayHere();
  await postEvent(relay.webhookUrl, event("refused"));
  const file = join(relay.folder, "backup.db");
  const before = Date.now();
  const report = jsonOf<{ at: string; bytes: number; audit: { balanced: boolean } }>(
    await runOn(relay, "backup", file, "--json"),
  );
  expect(report).toMatchObject({
    file,
    bytes: statSync(file).size,
    audit: { balanced: true, events: { received: 1 } },
  });
  expect(Date.parse(report.at)).toBeGreaterThanOrEqual(before);
  const failed = (words: string) => ({
    code: 1,
    out: "",
    err: expect.stringMatching(new RegExp(`^wamid-relay: [^\\n]*${words}[^\\n]*\\n$`)),
  });
  expect(await runOn(relay, "backup", file)).toEqual(
    failed("backup.db exists; with --force it is replaced"),
  );
  expect(await runOn(relay, "backup", join(relay.folder, "none", "b.db"))).toEqual(
    failed("the folder .*none does not exist"),
  );
  expect(await runOn(relay, "restore", join(relay.folder, "none.db"))).toEqual(
    failed("there is no backup at"),
  );
  await relay.stop();
  expect(await runOn(relay, "restore", file)).toEqual(
    failed("exists; with --force it is kept under another name"),
  );
  const { kept } = jsonOf<{ kept: string }>(
    await runOn(relay, "restore", file, "--force", "--json"),
  );
  expect(existsSync(kept)).toBe(true);
});

test("a store whose sums do not match ends backup and restore with 3, with the offenders on standard error", async () => {
  // An attempt would be missing in the sums as well.
  const later = { retry: { schedule: ["1h"], jitter: 0 } };
  const relay = await startRelayHere({
    settings: { routes: [routeTo("http://127.0.0.1:9/", { to: later })] },
  });
  await postEvent(relay.webhookUrl, { ...event("broken"), id: "order-5491155550100" as EventId });
  await relay.stop();
  const db = new Database(relay.storePath);
  db.exec("DELETE FROM queue");
  db.close();
  const file = join(relay.folder, "backup.db");
  const wrong = {
    code: 3,
    out: expect.stringContaining("the sums do not match: 1 offence;"),
    // The id is masked, as audit masks it. A slow machine shows the progress before it.
    err: expect.stringMatching(/^delivery missing: event 1 \(event:[0-9a-f]{12}\): /m),
  };
  expect(await runOn(relay, "backup", file)).toEqual(wrong);
  expect(await runOn(relay, "restore", file, "--force")).toEqual(wrong);
});

test.each(["backup", "restore"])(
  "%s refuses PostgreSQL, and names the page that helps",
  async (command) => {
    const relay = await makeRelayHere({
      settings: { storage: { driver: "postgres", url: "postgres://u@127.0.0.1:9/d" } },
    });
    const { code, out, err } = await runOn(relay, command, join(relay.folder, "backup.db"));
    expect([code, out]).toEqual([1, ""]);
    expect(err).toMatch(/storage\.driver postgres: .*docs\/how-to\/back-up-and-restore\.md/);
    expect(
      existsSync(new URL("../../../docs/how-to/back-up-and-restore.md", import.meta.url)),
    ).toBe(true);
  },
);

test("a restored store belongs to the owner of its folder, also when root restores it", async () => {
  const relay = await startRelayHere();
  const file = join(relay.folder, "backup.db");
  expect((await runOn(relay, "backup", file)).code).toBe(0);
  const storePath = join(relay.folder, "of-another", "relay.db");
  mkdirSync(dirname(storePath));
  // Only root can give a folder away. For other users the owner is the same.
  if (process.getuid?.() === 0) chownSync(dirname(storePath), 65_534, 65_534);
  const { uid } = statSync(dirname(storePath));
  const other = await makeRelayHere({ storePath });
  expect((await runOn(other, "restore", file)).code).toBe(0);
  const owners = readdirSync(dirname(storePath)).map((name) => [
    name,
    statSync(join(dirname(storePath), name)).uid,
  ]);
  expect(owners).toEqual([
    ["relay.db", uid],
    ["relay.db.lock", uid],
  ]);
});
