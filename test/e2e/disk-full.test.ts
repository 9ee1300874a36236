// @module-tag slow: it fills a disk and waits for recovery.
import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { SandboxEvent } from "../../src/sandbox/events/publisher.ts";
import { openDownstream } from "../harness/downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { makeRelay, type RelayProcess, startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { integrityOf, rowsOf } from "../harness/store-rows.ts";
import { mountSmallDisk } from "../harness/tmpfs.ts";
import { until } from "../harness/until.ts";

const failures = async (relay: RelayProcess) =>
  Number(
    /^relay_store_failures_total (\d+)/m.exec(String((await relay.ask("/metrics")).body))?.[1],
  );
const logged = (relay: RelayProcess, at: string) =>
  relay.log().filter(({ level, msg }) => level === at && msg !== "attempt");
const answeredIds = (downstream: {
  arrivals: readonly { answered: number | null; eventId: string | null }[];
}) =>
  new Set(
    downstream.arrivals.filter(({ answered }) => answered === 200).map(({ eventId }) => eventId),
  );

/**
 * Posts and says whether it was stored; anything but 200 or a fast 503 that says when to come again
 * fails the test.
 */
async function postOrFast503(relay: RelayProcess, event: SandboxEvent): Promise<boolean> {
  const posted = await postEvent(relay.webhookUrl, event);
  if (posted.status === 200) return true;
  expect(posted).toMatchObject({ status: 503, word: "store_unavailable" });
  expect(Number(posted.headers.get("retry-after"))).toBeGreaterThan(0);
  return false;
}

/** Writes until the disk takes no more. */
function fillDisk(path: string): void {
  const file = openSync(path, "a");
  try {
    for (let size = 1024 * 1024; size >= 1; ) {
      try {
        writeSync(file, Buffer.alloc(size));
      } catch (error) {
        if ((error as { code?: string }).code !== "ENOSPC") throw error;
        size = Math.floor(size / 2);
      }
    }
  } finally {
    closeSync(file);
  }
}

test("on a full disk it answers 503, recovers without a restart, and loses nothing", async () => {
  const disk = mountSmallDisk(16 * 1024 * 1024);
  const ballast = join(disk, "ballast");
  const downstream = await openDownstream();
  const relay = await startRelay({
    storePath: join(disk, "relay.db"),
    settings: { routes: [routeTo(downstream.url)] },
  });
  const messages = createMessages("tmpfs full");
  const acknowledged = new Set<string>();
  for (let round = 0; round < 2; round += 1) {
    const late = messages.event();
    for (const event of [messages.event(), late]) {
      expect(await postOrFast503(relay, event)).toBe(true);
      acknowledged.add(event.id);
    }
    await until("it is delivered", () => answeredIds(downstream).has(late.id));
    fillDisk(ballast);
    // The write-ahead log may have room left from before; it runs out.
    let refusals = 0;
    let refused: SandboxEvent | undefined;
    for (let posted = 0; refusals < 25 && posted < 5_000; posted += 1) {
      const event = messages.event();
      if (await postOrFast503(relay, event)) acknowledged.add(event.id);
      else {
        refusals += 1;
        refused = event;
      }
    }
    expect(refusals).toBe(25);
    expect(await postEvent(relay.webhookUrl, Buffer.from("signed, and no envelope"))).toMatchObject(
      {
        status: 503,
        word: "store_unavailable",
      },
    );
    const registration = { account: "main", wamid: messages.wamid() };
    expect(
      await relay.ask("/v1/messages/track", { method: "POST", body: registration }),
    ).toMatchObject({
      status: 503,
      body: { code: "store_unavailable" },
    });
    const reason = expect.stringMatching(/disk.*\(SQLITE_FULL\)/);
    expect(await relay.ask("/readyz")).toMatchObject({
      status: 503,
      body: { ready: false, store: "failing", reason },
    });
    expect((await relay.ask("/healthz")).status).toBe(200);
    expect((await relay.ask("/v1/events?limit=2")).body).toMatchObject({ data: { length: 2 } });
    const failuresBefore = await failures(relay);
    await until("probes fail a while", async () => (await failures(relay)) > failuresBefore + 3);

    rmSync(ballast);
    await until("it is ready by itself", async () => (await relay.ask("/readyz")).status === 200);
    expect(logged(relay, "error").map(({ msg }) => msg)).toEqual(
      Array(round + 1).fill("events cannot be stored; answering 503 until they can"),
    );
    // Nothing of a refused one is left behind: it is new when it comes again.
    expect(await postEvent(relay.webhookUrl, refused as SandboxEvent)).toMatchObject({
      status: 200,
      word: "accepted",
    });
  }
  await until(
    "everything acknowledged is delivered",
    () => answeredIds(downstream).size >= acknowledged.size,
  );
  expect([...acknowledged].filter((id) => !answeredIds(downstream).has(id))).toEqual([]);
  await relay.kill9();
  await relay.start();
  expect(
    rowsOf<{ n: number }>(relay.storePath, "SELECT count(*) AS n FROM events")[0]?.n,
  ).toBeGreaterThanOrEqual(acknowledged.size);
  expect(integrityOf(relay.storePath)).toBe("ok");
});

test("started on a full disk it prints one line and exits with 1, for a new and an existing file", async () => {
  const disk = mountSmallDisk(4 * 1024 * 1024);
  const relay = await makeRelay({
    storePath: join(disk, "relay.db"),
    settings: { routes: [routeTo("http://127.0.0.1:9/")] },
  });
  const ballast = join(disk, "ballast");
  fillDisk(ballast);
  expect(await relay.startRefused()).toEqual({ code: 1, signal: null });
  expect(relay.stderr()).toMatch(/^wamid-relay: [^\n]*relay\.db[^\n]*full[^\n]*\n$/);

  rmSync(ballast);
  await relay.start();
  expect(await postEvent(relay.webhookUrl, createMessages("old file").event())).toMatchObject({
    status: 200,
  });
  await relay.kill9();
  fillDisk(ballast);
  const before = relay.stderr().length;
  expect(await relay.startRefused()).toEqual({ code: 1, signal: null });
  expect(relay.stderr().slice(before)).toMatch(/^wamid-relay: [^\n]*relay\.db[^\n]*\n$/);

  rmSync(ballast);
  await relay.start();
  expect(rowsOf(relay.storePath, "SELECT 1 FROM events").length).toBe(1);
});
