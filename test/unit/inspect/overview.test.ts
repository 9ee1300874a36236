import { expect, test } from "vitest";
import { parseSettings } from "../../../src/config/load.ts";
import { createCount, untilFailed } from "../../../src/inspect/count.ts";
import { createOverview } from "../../../src/inspect/overview.ts";
import { noHistory } from "../../../src/model/last-hour.ts";

test("reads each entry of the attention list once, however many routes there are", async () => {
  const names = Array.from({ length: 100 }, (_, n) => `r${n}`);
  const routes = names.map((name) => ({ name, to: { url: "https://crm.example/" } }));
  const settings = parseSettings(JSON.stringify({ routes }), "relay.yaml", {});
  let read = 0;
  const entries = ["dead-letters", "destination-failing"].flatMap((kind) =>
    names.map((subject) => ({
      get kind() {
        read += 1;
        return kind;
      },
      subject,
      since: 0,
      text: `${kind} of ${subject}`,
    })),
  );
  const overview = createOverview({
    relay: { version: "1.0.0", instance: "one", storage: "sqlite", startedAt: 0 },
    now: () => 0,
    settings: () => settings,
    diagnose: async () =>
      ({ facts: { now: 0, routes: [] }, attention: entries, backlog: [], goodSince: 0 }) as never,
    lanes: () => new Map(),
    hasOtherWorkers: () => false,
    read: { lastHour: async () => noHistory, handshakes: () => new Map() },
  });
  const { destinations } = await overview();
  // The first entry of a route is shown.
  expect(destinations.map(({ reason }) => reason)).toEqual(
    names.map((name) => `dead-letters of ${name}`),
  );
  expect(read).toBe(entries.length);
});

test("reuses a count while a read hangs in a store that has failed", async () => {
  let failure: object | null = null;
  const reads = [Promise.resolve(1), new Promise<number>(() => {})];
  let now = 0;
  const count = createCount(
    () => now,
    () => untilFailed(reads.shift() ?? 0, () => failure),
  );
  expect(await count()).toBe(1);
  now = 60_000;
  const again = count();
  failure = {};
  expect(await again).toBe(1);
});
