// Slow: it registers thousands of messages in one request.
import { readFileSync } from "node:fs";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { createMessages, postOf } from "../../harness/posts.ts";
import { type AnyRelay, startRelayHere } from "../../harness/relay-here.ts";
import { startRelay } from "../../harness/relay-process.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { openSender } from "../../harness/sender.ts";
import { rowsOf } from "../../harness/store-rows.ts";
import { until } from "../../harness/until.ts";
import { openReport, postLines } from "./post-lines.ts";

const count = 40_000;

const lineOf = (n: number) =>
  `${JSON.stringify({
    account: "main",
    wamid: `wamid.HBgNNTQ5MTE1NTU1MDAwMRUCABEYEkQ0${String(n).padStart(10, "0")}==`,
    reference: `order-${n}`,
    metadata: { team: "support", campaign: "spring" },
  })}\n`;

/** Sends the lines `from` to `to` and counts what the report says. */
async function send(relay: AnyRelay, from: number, to: number, onLine: (n: number) => void = () => {}) {
  const { lines } = await openReport(relay, Array.from({ length: to - from }, (_, n) => lineOf(from + n)).join(""));
  let seen = 0;
  let last: Record<string, unknown> | null = null;
  try {
    for await (const one of lines) {
      last = one;
      if (!("line" in one)) continue;
      seen += 1;
      if (one["line"] !== seen) throw new Error(`line ${String(one["line"])} came as number ${seen}`);
      onLine(seen);
    }
  } catch (error) {
    // The relay was killed.
    if (!(error instanceof TypeError)) throw error;
  }
  return { seen, last };
}

const residentMb = (pid: number) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;

/** What registration is about; the relay's own times are left out. */
const endState = (relay: AnyRelay) =>
  rowsOf(relay.storePath, "SELECT name AS wamid, reference, metadata, registered_at IS NOT NULL AS registered FROM subjects ORDER BY name");

test(`${count} lines need little memory and do not stop receiving`, async () => {
  const relay = await startRelay();
  const over = new AbortController();
  const messages = createMessages("meanwhile");
  const sender = openSender(relay, { concurrency: 1 });
  const took: number[] = [];
  const receiving = (async () => {
    while (!over.signal.aborted) {
      const startedAt = performance.now();
      await sender.post(postOf(messages.event()));
      took.push(performance.now() - startedAt);
    }
  })();
  const before = residentMb(relay.pid());
  let most = 0;
  const startedAt = performance.now();
  const { seen, last } = await send(relay, 0, count, (n) => {
    if (n % 2_000 === 0) most = Math.max(most, residentMb(relay.pid()));
  });
  const seconds = (performance.now() - startedAt) / 1000;
  over.abort();
  await receiving;
  expect([seen, last]).toEqual([count, { lines: count, created: count, known: 0, conflict: 0, invalid: 0 }]);
  const sorted = took.toSorted((a, b) => a - b);
  const slow = sorted[Math.floor(sorted.length * 0.99)] ?? 0;
  const again = performance.now();
  expect((await send(relay, 0, count)).last).toMatchObject({ known: count });
  const secondsAgain = (performance.now() - again) / 1000;
  console.log(
    `${Math.round(count / seconds)} lines/s new, ${Math.round(count / secondsAgain)} known; memory ${before.toFixed(0)} → at most ${most.toFixed(0)} MB; ` +
      `${took.length} events received meanwhile, p50 ${sorted[sorted.length >> 1]?.toFixed(1)} ms, p99 ${slow.toFixed(1)} ms, max ${sorted.at(-1)?.toFixed(1)} ms`,
  );
  expect(most - before).toBeLessThan(80);
  // Hundreds, or fewer where this process pauses. At most three if the request held them up to its end.
  expect(took.length).toBeGreaterThan(5);
});

test("repeating the request after kill -9 gives the same result", async () => {
  const total = 10_000;
  const undisturbed = await startRelayHere();
  await send(undisturbed, 0, total);
  const relay = await startRelay();
  // The relay has no end at this line, so it is killed before its own end, however late.
  const change = (sql: string) => new Database(relay.storePath).exec(sql).close();
  const wamid = (JSON.parse(lineOf(5_000)) as { wamid: string }).wamid;
  change(
    `CREATE TRIGGER endless BEFORE INSERT ON subjects WHEN NEW.name = '${wamid}'
     BEGIN SELECT count(*) FROM subjects a, subjects b, subjects c, subjects d; END`,
  );
  for (const at of [700, 4_321]) {
    let killed: Promise<void> | null = null;
    const { seen } = await send(relay, 0, total, (n) => {
      if (n === at) killed = relay.kill9();
    });
    await killed;
    expect(seen).toBeLessThan(total);
    await relay.start();
    // Every line that was reported is on the disk.
    const stored = rowsOf<{ n: number }>(relay.storePath, "SELECT count(*) AS n FROM subjects WHERE registered_at IS NOT NULL")[0]?.n;
    expect(stored).toBeGreaterThanOrEqual(seen);
  }
  change("DROP TRIGGER endless");
  const { last } = await send(relay, 0, total);
  expect(last).toMatchObject({ lines: total, conflict: 0, invalid: 0 });
  expect(Number(last?.["known"])).toBeGreaterThan(0);
  expect(endState(relay)).toEqual(endState(undisturbed));
});

test("delivers four thousand parked messages registered at once without delaying new events", { tags: ["slow"] }, async () => {
  const downstream = await openDownstream({ keepBodies: false });
  const relay = await startRelay({
    settings: { tracking: { unknown: "park", parkFor: "1h" }, routes: [routeTo(downstream.url, { match: { tracked: true } })] },
  });
  const messages = createMessages("parked");
  const events = Array.from({ length: 4_000 }, () => messages.event());
  const sender = openSender(relay, { concurrency: 16 });
  await sender.run(events.map((event) => postOf(event)));
  const posted = postLines(relay, events.map(({ data }) => `${JSON.stringify({ account: "main", wamid: data["wamid"] })}\n`).join(""));
  const took: number[] = [];
  let isOver = false;
  const receiving = (async () => {
    while (!isOver) {
      const startedAt = performance.now();
      await sender.post(postOf(messages.event()));
      took.push(performance.now() - startedAt);
    }
  })();
  const { lines } = await posted;
  isOver = true;
  await receiving;
  expect(lines.at(-1)).toMatchObject({ created: 4_000 });
  console.log(`slowest of ${took.length} events received meanwhile: ${Math.max(...took).toFixed(1)} ms`);
  // Events come between the twenty transactions of 200 lines. A request that held them up would let one or two through.
  expect(took.length).toBeGreaterThan(5);
  await until("all go out", () => downstream.counts().taken === 4_000);
});
