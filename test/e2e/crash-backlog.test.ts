// @module-tag slow: it receives a large backlog, kills the relay and delivers all of it.
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { processorSeconds } from "../../bench/load/measure.ts";
import { statsOf } from "../harness/ask-relay.ts";
import { openDownstream } from "../harness/downstream.ts";
import { createMessages, postOf } from "../harness/posts.ts";
import { type RelayProcess, startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { openSender } from "../harness/sender.ts";
import { soakSize } from "../harness/soak.ts";
import { until } from "../harness/until.ts";
import { freePort } from "../setup/free-port.ts";

const backlog = soakSize(8_000, 20_000);
/**
 * Some 5 KiB for each that comes after the first quarter: SQLite's page cache may take 64 MiB of
 * 20,000.
 */
const mostGrownMiB = soakSize(32, 80);

function residentMiB(relay: RelayProcess): number {
  return (
    Number(/^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${relay.pid()}/status`, "latin1"))?.[1]) /
    1024
  );
}

/**
 * Starts it again and gives the seconds of processor time that this took: waiting for a busy
 * machine is no part of it.
 */
async function restart(relay: RelayProcess): Promise<number> {
  await relay.kill9();
  await relay.start();
  return processorSeconds(relay.pid()) ?? Number.NaN;
}

test(`${backlog} deliveries for a dead destination cost no memory, delay no restart, and are all delivered`, async () => {
  const port = await freePort();
  const relay = await startRelay({
    settings: {
      log: { level: "error" },
      routes: [routeTo(`http://127.0.0.1:${port}/`, { to: { concurrency: 64 } })],
    },
  });
  const emptyStarts = [];
  for (let n = 0; n < 2; n += 1) emptyStarts.push(await restart(relay));
  const messages = createMessages("backlog");
  const sender = openSender(relay, { concurrency: 64 });
  function* posts(count: number) {
    for (let n = 0; n < count; n += 1) yield postOf(messages.event());
  }
  // The first quarter warms it up: code is compiled, the heap and the page cache find their sizes.
  expect((await sender.run(posts(backlog / 4))).accepted).toBe(backlog / 4);
  const quarterMiB = residentMiB(relay);
  expect((await sender.run(posts((backlog * 3) / 4))).accepted).toBe((backlog * 3) / 4);
  const wholeMiB = residentMiB(relay);
  expect((await relay.ask("/v1/stats")).body).toMatchObject({
    deliveries: { waiting: backlog, delivered: 0 },
  });
  expect(wholeMiB - quarterMiB).toBeLessThan(mostGrownMiB);
  expect(wholeMiB).toBeLessThan(300);

  const fullStarts = [];
  for (let n = 0; n < 2; n += 1) fullStarts.push(await restart(relay));
  // 2 s is the promise; a machine on which an empty file takes long gets longer.
  expect(Math.min(...fullStarts)).toBeLessThan(Math.max(2, 2 * Math.min(...emptyStarts)));

  const downstream = await openDownstream({ port, keepArrivals: false, keepBodies: false });
  await until("everything is delivered", () => downstream.counts().taken === backlog);
  expect(residentMiB(relay)).toBeLessThan(300);
  await until("and written down", async () => (await statsOf(relay)).deliveries.waiting === 0);
  console.log(
    `resident ${Math.round(quarterMiB)} MiB at a quarter, ${Math.round(wholeMiB)} MiB at ${backlog}, ${Math.round(residentMiB(relay))} MiB drained; ready after ${Math.min(...emptyStarts)} s of a processor empty, ${Math.min(...fullStarts)} s full`,
  );
});
