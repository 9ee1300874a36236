import { expect, test } from "vitest";
import { parse } from "yaml";
import { isRejected, peopleOf } from "../../../src/cli/demo/play.ts";
import { createProgress, type DemoCounts } from "../../../src/cli/demo/progress.ts";
import { troubles } from "../../../src/cli/demo/run.ts";
import { type DemoFormat, demoSettings } from "../../../src/cli/demo/settings.ts";
import type { Io } from "../../../src/cli/io.ts";
import { settingsSchema } from "../../../src/config/schema.ts";

test("the same seed makes the same unique people, with phone numbers of each meaning", () => {
  const people = peopleOf("a", "standard", 600);
  expect(peopleOf("a", "standard", 600)).toEqual(people);
  expect(peopleOf("b", "standard", 600)).not.toEqual(people);
  const phones = [
    ...people.recipients.map(({ phone }) => phone),
    ...people.strangers,
    ...people.guests,
  ];
  expect(new Set(phones).size).toBe(930);
  for (const phone of phones) expect(phone).toMatch(/^\+\d{10,13}$/);
  const ends = new Set(people.recipients.map(({ phone }) => phone.slice(-4)));
  for (const end of ["0000", "0001", "0004", "0007", "0010"]) expect(ends).toContain(end);
  expect(phones.some((phone) => phone.endsWith("0009"))).toBe(false);
  expect(people.strangers.some((phone) => isRejected(phone))).toBe(false);
  expect(peopleOf("a", "meta", 600)).toEqual({
    recipients: people.recipients,
    strangers: [],
    guests: [],
  });
  expect(new Set(people.recipients.map(({ wroteBefore }) => wroteBefore)).size).toBe(2);
});

const settingsOf = (format: DemoFormat) => {
  const places = {
    databasePath: "/tmp/with: odd # name/relay.db",
    downstreamUrl: "http://127.0.0.1:9000",
  };
  const secrets = {
    webhook: "webhook-secret",
    token: "the-token-of-a-relay",
    downstream: "downstream-secret",
  };
  return settingsSchema.parse(parse(demoSettings({ format, ...places, ...secrets })));
};

test("the demo's settings are valid, and its troubles end with recovery", () => {
  const { storage, routes } = settingsOf("standard");
  expect(storage).toMatchObject({ path: "/tmp/with: odd # name/relay.db" });
  expect(routes.map(({ name, payload }) => [name, payload])).toEqual([
    ["everything", "original"],
    ["failures", "enriched"],
    ["statuses", "enriched"],
  ]);
  expect(routes[0]?.to.secret?.reveal()).toBe("downstream-secret");
  expect(troubles.at(-1)?.failure).toBeNull();
});

test("the settings of the demo of Meta's webhooks are valid", () => {
  expect(settingsOf("meta").sources["wa"]).toMatchObject({
    format: "meta",
    registerBy: "callback-data",
  });
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
  const io: Io = {
    out: (line) => lines.push(line),
    err: () => undefined,
    isTerminal,
    env: {},
    readStdin: async () => Buffer.alloc(0),
  };
  return { io, lines };
};

test("in a pipe, progress is one plain line a second", () => {
  const { io, lines } = recordingIo(false);
  const progress = createProgress(io);
  for (const seconds of [0.1, 0.4, 0.9, 1.1, 1.3, 2.0])
    progress.show(seconds, { ...none, sent: 7 }, "is well");
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
