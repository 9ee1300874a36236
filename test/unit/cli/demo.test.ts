import { expect, test } from "vitest";
import { parse } from "yaml";
import { createPostLog } from "../../../src/cli/demo/checks.ts";
import { createProgress, type DemoCounts } from "../../../src/cli/demo/progress.ts";
import { createRegistration, demoSettings, metaDemoSettings, secretNames } from "../../../src/cli/demo/relay.ts";
import { troubles } from "../../../src/cli/demo/run.ts";
import { isRejected, peopleOf } from "../../../src/cli/demo/service.ts";
import type { Io } from "../../../src/cli/io.ts";
import { settingsSchema } from "../../../src/config/schema.ts";
import type { ObservedPost } from "../../../src/sandbox/start-sandbox.ts";
import { bodyOf } from "./demo-outcome.ts";

test("the same seed makes the same unique people, with phone numbers of each meaning", () => {
  const counts = { recipients: 600, strangers: 300, guests: 30 };
  const people = peopleOf("a", counts);
  expect(peopleOf("a", counts)).toEqual(people);
  expect(peopleOf("b", counts)).not.toEqual(people);
  const phones = [...people.recipients.map(({ phone }) => phone), ...people.strangers, ...people.guests];
  expect(new Set(phones).size).toBe(930);
  for (const phone of phones) expect(phone).toMatch(/^\+\d{10,13}$/);
  const ends = new Set(people.recipients.map(({ phone }) => phone.slice(-4)));
  for (const end of ["0000", "0001", "0004", "0007", "0010"]) expect(ends).toContain(end);
  expect(phones.some((phone) => phone.endsWith("0009"))).toBe(false);
  expect(people.strangers.some((phone) => isRejected(phone))).toBe(false);
  expect(people.guests.filter((phone) => phone.endsWith("0000"))).toHaveLength(7);
  expect(new Set(people.recipients.map(({ wroteBefore }) => wroteBefore)).size).toBe(2);
});

test("the log keeps an event's first begin and first end", () => {
  const log = createPostLog();
  const body = bodyOf("e1", "message.status", { wamid: "wamid.a", status: "sent" });
  const post: ObservedPost = { url: "http://relay", eventId: "e1", body, sort: "event", answered: 200, began: 4, ended: 9 };
  log.note({ ...post, answered: 503, began: 1, ended: 3 });
  expect(log.events.get("e1")?.before).toBe(Number.POSITIVE_INFINITY);
  log.note(post);
  log.note({ ...post, began: 5, ended: 6 });
  expect(log.events.get("e1")).toEqual({
    id: "e1",
    wamid: "wamid.a",
    status: "sent",
    isTruncated: false,
    body,
    after: 1,
    before: 6,
  });
  expect(log.counts).toEqual({ posts: 3, refused: 0 });
  const truncated = bodyOf("e2", "message.status", { truncated: true, id: null, size: 7 });
  log.note({ ...post, eventId: "e2", body: truncated });
  expect(log.events.get("e2")).toMatchObject({ isTruncated: true, wamid: null, status: null });
});

test("the demo's settings are valid, and its troubles end with recovery", () => {
  const text = demoSettings({ port: 8080, databasePath: "/tmp/with: odd # name/relay.db", downstreamUrl: "http://127.0.0.1:9000" });
  const filled = Object.values(secretNames).reduce((yaml, name) => yaml.replace(`\${${name}}`, "secret-text"), text);
  const settings = settingsSchema.parse(parse(filled));
  expect(settings.storage).toMatchObject({ path: "/tmp/with: odd # name/relay.db" });
  expect(settings.routes.map(({ name }) => name)).toEqual(["everything", "answered", "failures", "statuses"]);
  expect(settings.routes.find(({ name }) => name === "answered")?.to.secret?.reveal()).toBe("secret-text");
  expect(troubles.at(-1)?.failure).toBeNull();
});

test("the settings of the demo of Meta's webhooks are valid", () => {
  const text = metaDemoSettings({ port: 8080, databasePath: "/tmp/relay.db", downstreamUrl: "http://127.0.0.1:9000" });
  const filled = Object.values(secretNames).reduce((yaml, name) => yaml.replace(`\${${name}}`, "secret-text"), text);
  const settings = settingsSchema.parse(parse(filled));
  expect(settings.routes.map(({ name, payload }) => [name, payload])).toEqual([
    ["everything", "original"],
    ["statuses", "enriched"],
  ]);
  expect(settings.sources["wa"]).toMatchObject({ format: "meta", registerBy: "callback-data" });
});

test("registers each message once, in order, and throws what a registration threw", async () => {
  const given: { readonly wamid: string; readonly reference?: string }[] = [];
  const registration = createRegistration({
    async *trackAll(messages) {
      for await (const message of messages) {
        given.push(message as { readonly wamid: string; readonly reference?: string });
        yield { line: given.length, wamid: given.at(-1)?.wamid ?? null, result: "created" };
      }
      return { lines: given.length, created: given.length, known: 0, conflict: 0, invalid: 0 };
    },
  });
  for (const wamid of ["wamid.1", "wamid.2", "wamid.3"]) registration.accepted(wamid);
  await registration.finish();
  expect(given.map(({ wamid, reference }) => [wamid, reference])).toEqual([
    ["wamid.1", "order-1"],
    ["wamid.2", "order-2"],
    ["wamid.3", "order-3"],
  ]);
  expect(registration.wamids.size).toBe(3);

  const failing = createRegistration({
    // biome-ignore lint/correctness/useYield: it fails before its first line.
    async *trackAll() {
      throw new Error("401");
    },
  });
  failing.accepted("wamid.1");
  await expect(failing.finish()).rejects.toThrow("401");
});

const none: DemoCounts = {
  sent: 0,
  posted: 0,
  accepted: 0,
  duplicate: 0,
  quarantined: 0,
  refused: 0,
  delivered: 0,
  retried: 0,
  waiting: 0,
};
const recordingIo = (isTerminal: boolean) => {
  const lines: string[] = [];
  const io: Io = { out: (line) => lines.push(line), err: () => undefined, isTerminal, env: {}, readStdin: async () => Buffer.alloc(0) };
  return { io, lines };
};

test("in a pipe, progress is one plain line a second", () => {
  const { io, lines } = recordingIo(false);
  const progress = createProgress(io);
  for (const seconds of [0.1, 0.4, 0.9, 1.1, 1.3, 2.0]) progress.show(seconds, { ...none, sent: 7 }, "is well");
  progress.show(2.1, none, "is well", true);
  expect(lines).toHaveLength(4);
  expect(lines[0]).toBe(
    "0.1s sent=7 posted=0 accepted=0 duplicate=0 quarantined=0 refused=0 delivered=0 retried=0 waiting=0 downstream=is well",
  );
});

test("on a terminal, the table is drawn over itself and printed lines stay", () => {
  const { io, lines } = recordingIo(true);
  const progress = createProgress(io);
  progress.show(0, none, "is well");
  progress.show(0.2, { ...none, sent: 1234 }, "answers 503");
  const height = lines[0]?.split("\n").length;
  expect(lines[0]?.includes("\x1b")).toBe(false);
  expect(lines[1]?.startsWith(`\x1b[${height}A\x1b[0J`)).toBe(true);
  expect(lines[1]).toMatch(/answers 503[\s\S]*sent +1,234/);
});
