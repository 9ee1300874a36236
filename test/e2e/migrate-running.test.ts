// @module-tag slow: it moves a relay under load from SQLite to PostgreSQL and back, and kills some
// of the copies.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { createRandom } from "../../src/sandbox/ids.ts";
import { auditOf } from "../harness/ask-relay.ts";
import { openDownstream } from "../harness/downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { entry, startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { openSender, signedPosts, untilItIsBack } from "../harness/sender.ts";
import { rowsOf } from "../harness/store-rows.ts";
import { until } from "../harness/until.ts";
import { createDatabase } from "../setup/database.ts";
import { testSeed as seed } from "../setup/seed.ts";
import { arrivedAt, findSetbacks, findWrongStates, storedEvents } from "./crash-checks.ts";

/** `wamid-relay migrate` as a process of its own, killed after some time. */
async function migrate(
  args: readonly string[],
  killAfterMs: number | null,
): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, [entry, "migrate", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  const timer =
    killAfterMs === null ? undefined : setTimeout(() => child.kill("SIGKILL"), killAfterMs);
  const [out, err, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, "exit"),
  ]);
  clearTimeout(timer);
  return { code: code as number | null, out, err };
}

test("moves a relay under load to PostgreSQL and back: nothing acknowledged is lost, and nothing is planned twice", async () => {
  const random = createRandom(seed);
  await using database = await createDatabase();
  const downstream = await openDownstream({ keepBodies: false });
  const settings = {
    log: { level: "warn" },
    tracking: { unknown: "park", parkFor: "1h" },
    routes: [
      routeTo(`${downstream.url}/ordered`, { name: "ordered", to: { concurrency: 8 } }),
      routeTo(`${downstream.url}/any`, { name: "any", to: { concurrency: 8, order: "none" } }),
    ],
  };
  const onPostgres = { ...settings, storage: { driver: "postgres", url: database.url } };
  const relay = await startRelay({ settings });
  const back = join(relay.folder, "back.db");
  const config = relay.settingsPath;

  const over = new AbortController();
  let answered = 0;
  const sender = openSender(relay, { concurrency: 16, rate: 150, retry: untilItIsBack });
  const posts = signedPosts(seed);
  const sending = sender.run(posts, {
    signal: over.signal,
    onResult() {
      answered += 1;
    },
  });
  const more = async (count: number): Promise<void> => {
    const wanted = answered + count;
    await until("the load is on", () => answered >= wanted);
  };

  /**
   * Copies, and repeats what was killed. Until the source is marked, its relay goes on after each
   * kill.
   */
  async function move(from: string, to: string): Promise<void> {
    const args = ["--from", from, "--to", to, "--config", config];
    for (let kills = 0; kills < 4; kills += 1) {
      const { code } = await migrate(args, 500 + random.below(1_500));
      if (code !== null) break;
      const answer = await relay.ask("/readyz");
      if (!JSON.stringify(answer.body).includes("was moved to")) await more(20);
    }
    const ended = await migrate(args, null);
    expect(ended, ended.out + ended.err).toMatchObject({ code: 0 });
    await until("the relay refuses", async () => (await relay.ask("/readyz")).status === 503);
    const { attention } = (await relay.ask("/v1/overview")).body as {
      attention: { kind: string; text: string }[];
    };
    expect(attention.find(({ kind }) => kind === "store-failing")?.text).toMatch(
      /was moved to .*; start the relay there\.$/,
    );
    const refused = await postEvent(relay.webhookUrl, createMessages(`${seed} ${to}`).event());
    expect(refused).toMatchObject({ status: 503, word: "store_unavailable" });
    expect(refused.headers.get("retry-after")).toBe("5");
    await relay.stop();
  }

  await more(400);
  relay.writeSettings(onPostgres);
  await move(`sqlite:${relay.storePath}`, "postgres");
  await relay.start();
  await more(200);
  await move("postgres", `sqlite:${back}`);
  relay.writeSettings({ ...settings, storage: { path: back } });
  await relay.start();
  await more(200);
  over.abort();
  await sending;
  await until(
    "every delivery is made",
    () => rowsOf(back, "SELECT 1 FROM queue WHERE state <> 2 LIMIT 1").length === 0,
  );

  const stored = storedEvents(back);
  const seqOf = new Map(stored.flatMap(({ id, seq }) => (id === null ? [] : [[id, seq] as const])));
  const acknowledged = [...sender.acknowledged.keys()];
  expect(acknowledged.length).toBeGreaterThan(500);
  expect(acknowledged.filter((id) => !seqOf.has(id))).toEqual([]);
  expect([...sender.acknowledged.values()].filter(({ accepted }) => accepted > 1)).toEqual([]);
  for (const path of ["/ordered", "/any"])
    expect(arrivedAt(downstream.arrivals, path)).toEqual(new Set(seqOf.keys()));
  expect(findSetbacks(downstream.arrivals, "/ordered", seqOf)).toEqual([]);
  expect(
    rowsOf(back, "SELECT route, count(*) AS n FROM deliveries GROUP BY route ORDER BY route"),
  ).toEqual([
    { route: "any", n: seqOf.size },
    { route: "ordered", n: seqOf.size },
  ]);
  expect(findWrongStates(back)).toEqual([]);
  expect(await auditOf(relay)).toMatchObject({ balanced: true });
});
