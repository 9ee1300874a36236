import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { fieldsSchema, type ReceivedEvent, subjectOf } from "../../src/model/event.ts";
import {
  type MessageStatusRule,
  messageStatuses,
  type RunStatusRule,
  runStatuses,
} from "../../src/model/statuses.ts";
import { stepMessage, unobserved } from "../../src/model/tracking.ts";
import { nextPollAge, restingStatuses } from "../../src/reconcile/polls.ts";
import type { StoreReading } from "../../src/store/read/reading.ts";
import { anEvent, type EventParts, rulesFor, start } from "./store-events.ts";
import { onPostgres, onSqlite } from "./store-on-database.ts";

/*
 * What one more line in model/statuses.ts gives: `deferred` between `sent` and `failed`, and a run
 * that is `paused`. The tables are restored afterwards, because other test files share the process.
 */
const messageTable = messageStatuses as Record<string, MessageStatusRule>;
const runTable = runStatuses as Record<string, RunStatusRule>;
beforeAll(() => {
  messageTable["deferred"] = {
    rank: 25,
    stage: "open",
    direction: "outbound",
    webhook: true,
    error: false,
  };
  runTable["paused"] = { rank: 15, stage: "open", event: "automation.paused", error: false };
});
afterAll(() => {
  delete messageTable["deferred"];
  delete runTable["paused"];
});

const rules = rulesFor([{ name: "all" }]);

test("the state machine ranks it, and it is polled like other open statuses", () => {
  const seen = (status: string, at: number) => ({ status, error: null, at });
  const deferred = stepMessage(stepMessage(unobserved, seen("sent", 1)).state, seen("deferred", 2));
  expect(deferred).toEqual({
    state: { status: "deferred", error: null, times: { sent: 1, deferred: 2 } },
    transition: { from: "sent", to: "deferred" },
  });
  expect(stepMessage(deferred.state, seen("sent", 3))).toEqual({
    state: deferred.state,
    transition: null,
  });
  for (const status of ["failed", "delivered", "read"]) {
    const after = stepMessage(deferred.state, seen(status, 4)).state;
    expect(after.status).toBe(status);
    expect(stepMessage(after, seen("deferred", 5)).state).toEqual(after);
  }
  const times = { after: 60_000, giveUpAfter: 86_400_000, until: "read" } as const;
  expect(nextPollAge(0, "deferred", times)).toBe(nextPollAge(0, "sent", times));
  expect(restingStatuses("read")).not.toContain("deferred");
});

/** As it is received: its subject comes from the envelope. */
function received(parts: EventParts): ReceivedEvent {
  const event = anEvent(parts);
  return { ...event, subject: subjectOf(event.envelope, fieldsSchema.parse({})) };
}

const history = () => [
  received({ wamid: "w", status: "sent", at: start + 1 }),
  received({ wamid: "w", status: "deferred", at: start + 9 }),
  received({ wamid: "w", status: "deferred", at: start + 2 }),
  received({ wamid: "late", status: "read", at: start + 4 }),
  received({ wamid: "late", status: "deferred", at: start + 3 }),
  received({ runId: "r", event: "automation.paused", at: start + 5 }),
  received({ runId: "r", event: "automation.completed", at: start + 6 }),
];

async function viewsOf(read: StoreReading) {
  const messages = await Promise.all(["w", "late"].map((wamid) => read.findMessages(wamid)));
  const runs = await read.listRuns({ after: 0, before: Number.MAX_SAFE_INTEGER, limit: 10 });
  return {
    messages: messages.flat().map(({ wamid, status, times }) => ({ wamid, status, times })),
    runs: runs.map(({ runId, status, times }) => ({ runId, status, times })),
  };
}

const expected = {
  messages: [
    { wamid: "w", status: "deferred", times: { sent: start + 1, deferred: start + 2 } },
    { wamid: "late", status: "read", times: { read: start + 4, deferred: start + 3 } },
  ],
  runs: [{ runId: "r", status: "completed", times: { paused: start + 5, completed: start + 6 } }],
};

test.each([
  ["SQLite", onSqlite],
  ["PostgreSQL", onPostgres],
] as const)("%s stores its first time and shows it", async (_database, open) => {
  const subject = await open(rules);
  onTestFinished(() => subject.end());
  for (const event of history()) await subject.store.accept(event);
  expect(await viewsOf(subject.store.read)).toEqual(expected);
  await subject.store.accept(received({ wamid: "w", status: "sent", at: start + 20 }));
  await subject.store.accept(received({ wamid: "w", status: "deferred", at: start }));
  const [again] = await subject.store.read.findMessages("w");
  expect(again).toMatchObject({ status: "deferred", times: { sent: start + 1, deferred: start } });
});
