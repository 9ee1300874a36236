import { expect, test } from "vitest";
import { createReconciling, type ReconcilingParts } from "../../../src/app/reconciling.ts";
import { parseSettings } from "../../../src/config/load.ts";
import type { Unplanned } from "../../../src/store/views.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { settingsOf } from "../../harness/relay-settings.ts";

test("a schedule skips accounts whose unplanned events may end the silence of a message; a command does not", async () => {
  const clock = createManualClock();
  let unplanned: Unplanned = { events: 0, oldestAt: null };
  let claims = 0;
  const none = { polls: 0, others: 0 };
  const settings = parseSettings(
    JSON.stringify(settingsOf({ port: 0, storePath: "x.db" }, { reconcile: { schedule: "* * * * *", after: "60s" } })),
    "relay.yaml",
    {},
  );
  const reconciling = createReconciling({
    settings: () => settings,
    store: {
      claimPolls: async () => {
        claims += 1;
        return [];
      },
      settlePolls: async () => {},
      countPolls: () => ({ due: 0, unpollable: 0, missing: 0 }),
      holdLease: () => true,
      read: { unplanned: () => unplanned },
    },
    services: {
      limiters: () => new Map([["main", { stops: { quota: null, "quota-reads": null, unauthenticated: null, blocked: null } }]]),
      client: () => null,
    },
    usage: {
      facts: async () => ({ quota: null, month: { from: 0, until: 9e15 }, day: 0, now: clock.now(), before: none, today: none }),
      write: async () => {},
    },
    intake: {},
    clock,
    log: { info() {}, warn() {}, error() {} },
    metrics: () => ({ reconcile: { postponed: { set() {} }, polls: { inc() {} } } }),
    watching: {},
    scheduled: true,
  } as unknown as ReconcilingParts);

  await clock.advance(60_000);
  expect(claims).toBe(1);
  unplanned = { events: 3, oldestAt: clock.now() };
  await clock.advance(60_000);
  expect(claims).toBe(1);
  await reconciling.port.reconcile({}, null, new AbortController().signal);
  expect(claims).toBe(2);
  unplanned = { events: 3, oldestAt: clock.now() + 1 };
  await clock.advance(60_000);
  expect(claims).toBe(3);
  unplanned = { events: 0, oldestAt: null };
  await clock.advance(60_000);
  expect(claims).toBe(4);
  await reconciling.close();
});
