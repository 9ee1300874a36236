import { expect, test } from "vitest";
import { parse } from "yaml";
import { checkSums, type DemoOutcome } from "../../../src/cli/demo/checks.ts";
import { expectedOf } from "../../../src/cli/demo/expected.ts";
import { createLateRegistration, messagesOf } from "../../../src/cli/demo/messages.ts";
import { createProgress, type DemoCounts } from "../../../src/cli/demo/progress.ts";
import type { TrackedMessage } from "../../../src/cli/demo/relay-api.ts";
import { answeredPath, demoSettings, everythingPath, failuresPath, secretNames } from "../../../src/cli/demo/relay-settings.ts";
import { summaryLines } from "../../../src/cli/demo/summary.ts";
import { troubles } from "../../../src/cli/demo/troubles.ts";
import type { Io } from "../../../src/cli/io.ts";
import { settingsSchema } from "../../../src/config/schema.ts";
import { type Arrival, createArrivalLog } from "../../../src/sandbox/downstream/arrivals.ts";
import { createAcknowledgements } from "../../../src/sandbox/traffic/acknowledgements.ts";
import type { Post } from "../../../src/sandbox/traffic/post.ts";
import { createSenderCounts, type PostResult } from "../../../src/sandbox/traffic/post-result.ts";
import { scenario } from "../../../src/sandbox/traffic/scenario.ts";

const posts: readonly Post[] = [
  ...scenario({ seed: 3, start: Date.UTC(2026, 10, 1), messages: 60, mix: { malformed: 0.1, wronglySigned: 0.1, duplicated: 0.2 } }),
];

/** What a relay that does everything right would have led to, with changes. */
function outcome(change: { skipArrival?: number; body?: Buffer; swap?: boolean; stats?: Partial<DemoOutcome["stats"]> } = {}): DemoOutcome {
  const counts = createSenderCounts();
  const acknowledged = createAcknowledgements();
  const log = createArrivalLog({ keepArrivals: true });
  const known = new Set<string>();
  const failed = new Set<string>();
  let ticks = 0;
  const arrivals: Omit<Arrival, "number">[] = [];
  for (const post of posts) {
    const isNew = post.expected.of === "event" && !known.has(post.expected.id);
    const answer = post.expected.of === "post" ? post.expected.answer : isNew ? "accepted" : "duplicate";
    const result: PostResult = { kind: "answered", status: 200, answer, tries: 1, tookMs: 1 };
    counts.note(post, result);
    acknowledged.note(post, result, ticks++, ticks++);
    if (post.expected.of === "post") continue;
    known.add(post.expected.id);
    if (!isNew) continue;
    const { status } = JSON.parse(post.body.toString()).data;
    const arrive = (path: string, body = post.body) => {
      const { id, wamid } = post.subject;
      arrivals.push({ path, deliveryId: id + path, attempt: 1, eventId: id, wamid, answered: 200, signature: "unchecked", body });
    };
    arrive(everythingPath);
    if (status === "delivered" || status === "read") arrive(answeredPath);
    if (status === "failed" && post.subject.wamid !== null && !failed.has(post.subject.wamid)) {
      failed.add(post.subject.wamid);
      arrive(failuresPath, Buffer.from("enriched"));
    }
  }
  const delivered = arrivals.length;
  if (change.skipArrival !== undefined) arrivals.splice(change.skipArrival, 1);
  if (change.body !== undefined) arrivals[0] = { ...(arrivals[0] as Arrival), body: change.body };
  if (change.swap === true) arrivals.reverse();
  for (const [index, arrival] of arrivals.entries()) log.note({ ...arrival, number: index + 1 });
  const summary = counts.summary(1);
  return {
    posts,
    summary,
    acknowledged: acknowledged.byEvent,
    unexpected: [],
    stats: {
      dispositions: { forwarded: known.size, filtered: 0, ignored: 0, parked: 0, quarantined: summary.quarantined },
      duplicates: summary.duplicate,
      deliveries: { waiting: 0, held: 0, dead: 0, delivered },
      ...change.stats,
    },
    downstream: { arrivals: log.all, counts: log.counts },
  };
}
const mismatches = (of: DemoOutcome) =>
  checkSums(of)
    .filter(({ ok }) => !ok)
    .map(({ what }) => what);

test("the sums of a run in which all went well match", () => {
  expect(mismatches(outcome())).toEqual([]);
});

test.each([
  ["a delivery that never came", outcome({ skipArrival: 0 }), ["events accepted, each once", "deliveries"]],
  ["a body that was changed", outcome({ body: Buffer.from("{}") }), ["other bytes than were posted"]],
  ["deliveries in reverse", outcome({ swap: true }), ["out of order within a message"]],
  ["a duplicate not counted", outcome({ stats: { duplicates: 0 } }), ["duplicates"]],
  [
    "a delivery still owed",
    outcome({ stats: { deliveries: { waiting: 1, held: 0, dead: 0, delivered: 1 } } }),
    ["deliveries", "still owed, or out of attempts"],
  ],
  [
    "an answer that was wrong",
    { ...outcome(), unexpected: ["malformed: quarantined expected, got 200"] },
    ["answers that should have been others"],
  ],
])("%s is a mismatch, and the summary says so", (_what, changed, found) => {
  expect(mismatches(changed)).toEqual(found);
  const counts = {} as DemoCounts;
  const text = summaryLines({ tookMs: 1, counts, checks: checkSums(changed) }).join("\n");
  for (const what of found) expect(text).toContain(`MISMATCH  ${what}`);
  expect(text).toContain(`${found.length} of `);
});

test("what the posts must come to is counted from the posts alone", () => {
  const expected = expectedOf(posts);
  expect(expected.events).toBe(new Set(posts.flatMap(({ expected: one }) => (one.of === "event" ? [one.id] : []))).size);
  expect(expected.quarantined).toBe(posts.filter(({ sort }) => sort === "malformed").length);
  expect(expected.failures.least).toBeLessThanOrEqual(expected.failures.most);
  expect(expected.failures.most).toBeGreaterThan(0);
});

test("the demo's settings are valid, and its troubles end with recovery", () => {
  const text = demoSettings({ port: 8080, databasePath: "/tmp/with: odd # name/relay.db", downstreamUrl: "http://127.0.0.1:9000" });
  const filled = Object.values(secretNames).reduce((yaml, name) => yaml.replace(`\${${name}}`, "secret-text"), text);
  const settings = settingsSchema.parse(parse(filled));
  expect(settings.storage.path).toBe("/tmp/with: odd # name/relay.db");
  expect(settings.routes.map(({ name }) => name)).toEqual(["everything", "answered", "failures"]);
  expect(settings.routes.find(({ name }) => name === "answered")?.to.secret?.reveal()).toBe("secret-text");
  expect(troubles.at(-1)?.failure).toBeNull();
});

test("late messages are registered in batches, each once, and all by the end", async () => {
  const { early, late } = messagesOf(posts);
  expect(early.length).toBeGreaterThan(late.size);
  const calls: (readonly TrackedMessage[])[] = [];
  const registration = createLateRegistration(late, async (some) => void calls.push(some));
  for (const post of posts) registration.seen(post);
  await registration.finish();
  const registered = calls.flat().map(({ wamid }) => wamid);
  expect([...registered].sort()).toEqual([...late.keys()].sort());
  const failing = createLateRegistration(late, async () => Promise.reject(new Error("401")));
  for (const post of posts) failing.seen(post);
  await expect(failing.finish()).rejects.toThrow("401");
});

const none: DemoCounts = { sent: 0, accepted: 0, duplicate: 0, quarantined: 0, refused: 0, delivered: 0, retried: 0, waiting: 0 };
const recordingIo = (isTerminal: boolean) => {
  const lines: string[] = [];
  const io: Io = { out: (line) => lines.push(line), err: () => undefined, isTerminal, env: {}, readStdin: async () => Buffer.alloc(0) };
  return { io, lines };
};

test("in a pipe the progress is one plain line a second", () => {
  const { io, lines } = recordingIo(false);
  const progress = createProgress(io);
  for (const seconds of [0.1, 0.4, 0.9, 1.1, 1.3, 2.0]) progress.show(seconds, { ...none, sent: 7 }, "is well");
  progress.show(2.1, none, "is well", true);
  expect(lines).toHaveLength(4);
  expect(lines[0]).toBe("0.1s sent=7 accepted=0 duplicate=0 quarantined=0 refused=0 delivered=0 retried=0 waiting=0 downstream=is well");
});

test("on a terminal the table is drawn over itself, and a line said stays", () => {
  const { io, lines } = recordingIo(true);
  const progress = createProgress(io);
  progress.show(0, none, "is well");
  progress.show(0.2, { ...none, sent: 1234 }, "answers 503");
  const height = lines[0]?.split("\n").length;
  expect(lines[0]?.includes("\x1b")).toBe(false);
  expect(lines[1]?.startsWith(`\x1b[${height}A\x1b[0J`)).toBe(true);
  expect(lines[1]).toMatch(/answers 503[\s\S]*sent +1,234/);
});
