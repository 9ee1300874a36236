import { join } from "node:path";
import { expect, test } from "vitest";
import { conditions } from "../../../src/model/attention.ts";
import type { Attention } from "../../../src/model/overview.ts";
import { openSqliteStore } from "../../../src/store/sqlite/open.ts";
import { rulesFor } from "../../contract/store-events.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { until } from "../../harness/until.ts";
import { createWatcher } from "./watcher.ts";

const settings = {
  accounts: { main: { baseUrl: "http://127.0.0.1:1", apiKey: "the-key-of-main" } },
};
const { after } = conditions["destination-failing"];

/** A file, and the processes that open it one after the other. */
function open() {
  const folder = tempFolder();
  const clock = createManualClock();
  const told: string[] = [];
  let attention: readonly Attention[] = [];
  /** When the service refused the key; null: no process knows of a refusal. */
  let refusedAt: number | null = null;

  function start() {
    const store = openSqliteStore(join(folder, "relay.db"), rulesFor([]), {
      committed: () => {},
      failed: () => {},
    });
    const watching = createWatcher({
      store,
      clock,
      settings,
      write(line) {
        const { alarm, route, account, msg } = JSON.parse(line) as Record<string, string>;
        told.push(`${alarm} ${route ?? account} ${msg?.startsWith("over") ? "ended" : "began"}`);
      },
      limiterOf: () => ({ stops: { unauthenticated: refusedAt } }),
      attention: () => attention,
    });
    const started = watching.start();
    return {
      watching,
      alarms: () =>
        watching
          .alarms()
          .map(({ alarm, route, account, since }) => [alarm, route ?? account, since]),
      async stop(): Promise<void> {
        await started;
        await watching.close();
        await store.close();
      },
    };
  }
  return {
    clock,
    told,
    start,
    needs(...entries: readonly Attention[]): void {
      attention = entries;
    },
    refuses(at: number | null): void {
      refusedAt = at;
    },
  };
}

const failing = (since: number): Attention => ({
  kind: "destination-failing",
  severity: "error",
  subject: "crm",
  since,
  waiting: 12,
  nextAt: null,
  text: "crm answers 401.",
  action: "retry",
});

test("what needs action is an alarm once it lasts, and is over once it has ended for a minute", async () => {
  const { clock, told, start, needs } = open();
  const relay = start();
  const since = clock.now();
  needs(failing(since));
  await clock.advance((after - 15) * 1000);
  expect(relay.alarms()).toEqual([]);
  await clock.advance(30_000);
  await until("it is reported", () => told.length === 1);
  expect(relay.alarms()).toEqual([["destination-failing", "crm", since]]);
  // It comes and goes.
  needs();
  await clock.advance(45_000);
  needs(failing(since));
  await clock.advance(45_000);
  needs();
  await clock.advance(45_000);
  expect(relay.alarms()).toHaveLength(1);
  await clock.advance(45_000);
  await until("its end is reported", () => told.length === 2);
  expect(told).toEqual(["destination-failing crm began", "destination-failing crm ended"]);
  expect(relay.alarms()).toEqual([]);
  await relay.stop();
});

test("an alarm survives a restart: it keeps its beginning, and neither it nor its end is reported twice", async () => {
  const { clock, told, start, needs } = open();
  const since = clock.now();
  needs(failing(since));
  const first = start();
  await clock.advance((after + 15) * 1000);
  await until("it is reported", () => told.length === 1);
  await first.stop();

  const second = start();
  await clock.advance(1);
  expect(second.alarms()).toEqual([["destination-failing", "crm", since]]);
  await clock.advance(120_000);
  expect(told).toHaveLength(1);
  await second.stop();

  needs();
  const third = start();
  await clock.advance(90_000);
  await until("its end is reported", () => told.length === 2);
  await third.stop();
  const fourth = start();
  await clock.advance(120_000);
  expect(fourth.alarms()).toEqual([]);
  expect(told).toHaveLength(2);
  await fourth.stop();
});

test("a refused key stays an alarm over a restart until a call shows that it works", async () => {
  const { clock, told, start, refuses } = open();
  const first = start();
  await clock.advance(1);
  const since = clock.now();
  refuses(since);
  first.watching.keyRefused("main");
  await until("it is reported", () => told.length === 1);
  await first.stop();

  refuses(null);
  const second = start();
  await clock.advance(60_000);
  expect(second.alarms()).toEqual([["key", "main", since]]);
  second.watching.keyWorked("main");
  await clock.advance(15_000);
  await until("its end is reported", () => told.length === 2);
  expect(told).toEqual(["key main began", "key main ended"]);
  await second.stop();
});
