import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Downstream, startDownstream } from "../../../src/sandbox/downstream/downstream.ts";
import { makeRelay, type RelayProcess } from "../../harness/relay-process.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { expectAlive, expectCleanLog, expectError, freshEvent, nothingInFlight, quarantined } from "./alive.ts";
import { ask, requestBytes } from "./raw-client.ts";

let relay: RelayProcess;
let downstream: Downstream;

beforeAll(async () => {
  downstream = await startDownstream();
  relay = await makeRelay({
    settings: {
      routes: [
        routeTo(`${downstream.url}/deep`, { name: "looks-deep", match: { where: { "a.a.a": { $exists: true } } }, payload: "enriched" }),
        routeTo(`${downstream.url}/all`, { name: "all", payload: "enriched", match: { where: { secret: { $ne: "x" } } } }),
        routeTo(`${downstream.url}/values`, { name: "values", match: { where: { value: { $regex: "^a+$" }, number: { $gt: 5 } } } }),
      ],
      tracking: { unknown: "forward" },
      server: { badSignatureLimit: 100_000 },
    },
  });
  await relay.start();
});

afterAll(async () => {
  expectCleanLog(relay);
  await nothingInFlight(relay);
  await relay.dispose();
  await downstream.close();
});

const envelope = (changes: Readonly<Record<string, unknown>>) => JSON.stringify({ ...freshEvent(), ...changes });
const nested = (open: string, close: string, bytes: number) => {
  const depth = Math.floor(bytes / (open.length + close.length));
  return open.repeat(depth) + close.repeat(depth);
};
/** Room for the rest of the envelope within the megabyte. */
const deep = 1024 * 1024 - 500;

/** Signed rightly, and no envelope: kept, and shown with this reason. */
const malformed: readonly (readonly [name: string, body: string | Buffer, fault: RegExp])[] = [
  ["no body", "", /empty/],
  ["blanks", " \r\n ", /not valid JSON/],
  ["text", "hello", /not valid JSON/],
  ["JSON cut short", envelope({}).slice(0, -1), /not valid JSON/],
  ["two values", `${envelope({})}${envelope({})}`, /not valid JSON/],
  ["a trailing comma", envelope({}).replace(/\}$/, ",}"), /not valid JSON/],
  ["NaN", '{"id":NaN}', /not valid JSON/],
  ["null", "null", /^the body is not a JSON object$/],
  ["a number", "12", /^the body is not a JSON object$/],
  ["text in JSON", '"event"', /^the body is not a JSON object$/],
  ["a list", JSON.stringify([freshEvent()]), /^the body is not a JSON object$/],
  ["a list of lists, a megabyte deep", nested("[", "]", 1024 * 1024), /^the body is not a JSON object$/],
  ["a megabyte of [", "[".repeat(1024 * 1024), /not valid JSON/],
  ['a megabyte of {"a":', '{"a":'.repeat(Math.floor((1024 * 1024) / 5)), /not valid JSON/],
  ["objects, a megabyte deep", `${'{"a":'.repeat(170_000)}1${"}".repeat(170_000)}`, /^id is missing/],
  ["no id", envelope({ id: undefined }), /^id is missing$/],
  ["an id that is a number", envelope({ id: 17 }), /^id must be text/],
  ["an empty id", envelope({ id: "" }), /^id is empty$/],
  ["an id of 257 characters", envelope({ id: "x".repeat(257) }), /^id is longer than 256 characters$/],
  ["an id of 257 emoji", envelope({ id: "😀".repeat(257) }), /^id is longer than 256 characters$/],
  ["an id with a lone surrogate", envelope({}).replace(/"id":"[^"]*"/, '"id":"\\ud800"'), /^id is not well-formed text/],
  ["an event that is null", envelope({ event: null }), /^event must be text$/],
  ["an event that is a list", envelope({ event: ["message.status"] }), /^event must be text$/],
  ["an event with a lone surrogate", envelope({}).replace(/"event":"[^"]*"/, '"event":"a\\udc00"'), /^event is not well-formed text/],
  ["no data", envelope({ data: undefined }), /^data is missing$/],
  ["data that is a list", envelope({ data: [] }), /^data must be an object or null$/],
  ["data that is text", envelope({ data: "{}" }), /^data must be an object or null$/],
  ["a later key that spoils an earlier one", envelope({}).replace(/\}$/, ',"id":5}'), /^id /],
  ["invalid UTF-8", Buffer.concat([Buffer.from('{"id":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')]), /not valid UTF-8/],
  ["UTF-8 of a surrogate", Buffer.concat([Buffer.from('{"id":"'), Buffer.from([0xed, 0xa0, 0x80]), Buffer.from('"}')]), /not valid UTF-8/],
  ["UTF-16", Buffer.from(envelope({}), "utf16le"), /not valid (UTF-8|JSON)/],
  ["a byte order mark", Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(envelope({}))]), /not valid JSON/],
  ["NUL bytes", Buffer.alloc(300), /not valid JSON/],
  ["gzip", gzipSync(envelope({})), /not valid UTF-8/],
  ["a prototype in place of fields", '{"__proto__":{"id":"a","event":"b","createdAt":"2026-11-21T12:00:00Z","data":{}}}', /^id /],
];

describe("signed, but not an envelope", () => {
  test.each(malformed)("%s: 202, stored unchanged with the reason", async (_name, body, fault) => {
    const bytes = Buffer.from(body);
    const before = (await quarantined(relay)).length;
    const answer = await ask(relay.port, { body: bytes });
    expect(answer).toMatchObject({ status: 202, json: { status: "quarantined", error: expect.stringMatching(fault) } });
    const [newest, ...others] = await quarantined(relay);
    expect(others.length).toBe(before);
    expect(newest).toMatchObject({ fault: answer.json?.error, size: bytes.length, secret: expect.stringMatching(/^[0-9a-f]{12}$/) });
    const kept = await relay.ask(`/v1/events/${newest?.seq}`);
    expect(Buffer.from((kept.body as { body: string }).body, "base64").equals(bytes)).toBe(true);
    await expectAlive(relay);
  });
});

describe("unsigned", () => {
  test.each(malformed)("%s: 401, and nothing is stored", async (_name, body) => {
    const before = (await quarantined(relay)).length;
    expectError(await ask(relay.port, { body, secret: "another secret" }), "bad_signature");
    expect((await quarantined(relay)).length).toBe(before);
  });
});

/** Unusual, and an envelope all the same. */
const unusual: readonly (readonly [name: string, body: string])[] = [
  ["blanks around", `\n\t ${envelope({})} \r\n`],
  ["unknown fields", envelope({ version: 2, trace: { spans: [1, 2] } })],
  ["an unknown event kind", envelope({ event: "galaxy.collapsed" })],
  ["an id of 256 characters", envelope({ id: `${freshEvent().id}${"é".repeat(220)}` })],
  ["an id of 256 emoji", envelope({ id: "😀".repeat(256) })],
  ["an id of 129 emoji", envelope({ id: "🦊".repeat(129) })],
  ["a time that is a number", envelope({ createdAt: 1_800_000_000_000 })],
  ["a time without a zone", envelope({ createdAt: "2026-11-21T12:00:00.000" })],
  ["a time with a lower-case z", envelope({ createdAt: "2026-11-21t12:00:00z" })],
  ["the thirtieth of February", envelope({ createdAt: "2026-02-30T12:00:00Z" })],
  ["no time", envelope({ createdAt: undefined })],
  ["an automation's result with null data", envelope({ event: "automation.completed", data: null })],
  ["an unknown kind with null data", envelope({ event: "galaxy.collapsed", data: null })],
  ["a status of 300 emoji", envelope({ event: "message.status", data: { wamid: "wamid.E", status: `a${"😀".repeat(300)}` } })],
  ["a wamid of 256 emoji", envelope({ event: "message.status", data: { wamid: "😀".repeat(256), status: "sent" } })],
  ["NUL in an id", envelope({ id: `${freshEvent().id}\0after` })],
  ["an id like a path", envelope({ id: `../../${freshEvent().id}?a=b&c#d%00` })],
  ["an id like SQL", envelope({ id: `'; DROP TABLE events; -- ${freshEvent().id}` })],
  [
    "a wamid with a lone surrogate",
    envelope({ event: "message.status", data: { wamid: "SURROGATE", status: "sent" } }).replace("SURROGATE", "\\ud800"),
  ],
  [
    "a status with a lone surrogate",
    envelope({ event: "message.status", data: { wamid: "wamid.A", status: "SURROGATE" } }).replace("SURROGATE", "\\ud800"),
  ],
  ["a wamid that is an object", envelope({ event: "message.status", data: { wamid: { a: 1 }, status: ["sent"] } })],
  [
    "huge numbers",
    envelope({ event: "message.status", data: { wamid: "wamid.C", status: "failed", errorCode: 7 } }).replace(
      ":7",
      `:1e999,"n":${"9".repeat(5000)}`,
    ),
  ],
  ["a huge string", envelope({ data: { text: "x".repeat(900_000) } })],
  ["a huge status", envelope({ event: "message.status", data: { wamid: "wamid.D", status: "s".repeat(500_000) } })],
  ["a long text under a regular expression", envelope({ data: { value: `${"a".repeat(40_000)}!`, number: 6 } })],
  ["numbers as text where numbers are compared", envelope({ data: { value: "aaa", number: "1e3" } })],
  ["a megabyte of lists inside data", envelope({ data: { list: "HERE" } }).replace('"HERE"', nested("[", "]", deep))],
  ["a megabyte of objects inside data", envelope({ data: "HERE" }).replace('"HERE"', `${'{"a":'.repeat(170_000)}1${"}".repeat(170_000)}`)],
  ["a hundred thousand keys", envelope({ data: Object.fromEntries(Array.from({ length: 70_000 }, (_, n) => [`k${n}`, n])) })],
  [
    "__proto__ in data",
    envelope({ data: "HERE" }).replace('"HERE"', '{"__proto__":{"wamid":"x","secret":"x"},"constructor":{"prototype":1}}'),
  ],
  ["__proto__ beside data", envelope({}).replace(/\}$/, ',"__proto__":{"polluted":true}}')],
  ["duplicate keys, the last one counts", envelope({}).replace(/^\{/, '{"id":"first",')],
  ["a time in another zone", envelope({ createdAt: "2026-11-21T12:00:00.123456789+23:59" })],
  ["a time before our era's records", envelope({ createdAt: "0000-01-01T00:00:00+23:59" })],
];

describe("an envelope that no database takes", () => {
  test("a wamid with NUL: 200, and in quarantine with the reason", async () => {
    const body = envelope({ event: "message.status", data: { wamid: "wamid.\0B", status: "sent" } });
    const before = (await quarantined(relay)).length;
    expect(await ask(relay.port, { body })).toMatchObject({ status: 200, json: { status: "accepted" } });
    const [newest, ...others] = await quarantined(relay);
    expect(others.length).toBe(before);
    expect(newest).toMatchObject({ fault: expect.stringContaining("NUL"), size: Buffer.byteLength(body) });
    await expectAlive(relay);
  });
});

describe("unusual, but an envelope", () => {
  test.each(unusual)("%s: 200 once, then a duplicate", async (_name, body) => {
    expect(await ask(relay.port, { body })).toMatchObject({ status: 200, json: { status: "accepted" } });
    expect(await ask(relay.port, { body })).toMatchObject({ status: 200, json: { status: "duplicate" } });
    const { id } = JSON.parse(body) as { id: string };
    const stored = await relay.ask(`/v1/events/${encodeURIComponent(id)}`);
    // No database finds such an id.
    if (id.includes("\0")) expect(stored.status).toBe(400);
    else expect(stored).toMatchObject({ status: 200, body: { id, body: Buffer.from(body).toString("base64"), duplicates: 1 } });
    await expectAlive(relay);
  });

  test("delivers their bytes, with the relay's object added at the end", async () => {
    const ids = new Set(unusual.map(([, body]) => (JSON.parse(body) as { id: string }).id));
    const bodyFor = (id: string) => downstream.arrivals.find(({ path, eventId }) => path === "/all" && eventId === id)?.body;
    for (const id of ids) {
      const [, original = ""] = unusual.find(([, body]) => (JSON.parse(body) as { id: string }).id === id) ?? [];
      const arrived = await until(`the delivery of ${id.slice(0, 60)}`, () => bodyFor(id) ?? null);
      expect(arrived.toString("utf8").startsWith(original.trimEnd().slice(0, -1))).toBe(true);
      expect((JSON.parse(arrived.toString("utf8")) as { relay: unknown }).relay).toMatchObject({ route: "all" });
    }
    const deepOnes = () => downstream.arrivals.filter(({ path }) => path === "/deep").length;
    await until("the deep one is delivered", () => deepOnes() > 0);
    expect(deepOnes()).toBe(1);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});

describe("ignores headers that describe the body", () => {
  test.each([
    ["no content type", []],
    ["text", ["content-type: text/plain"]],
    ["a form", ["content-type: application/x-www-form-urlencoded"]],
    ["nonsense", ["content-type: \u00e9;;;=\u00ff"]],
    ["another charset", ["content-type: application/json; charset=utf-16"]],
    ["a content encoding that is not true", ["content-encoding: gzip", "content-type: application/json"]],
  ])("%s", async (_name, more) => {
    const body = envelope({});
    const lines = requestBytes({ body }).toString("latin1").split("\r\n").slice(1, 5);
    const kept = lines.filter((line) => !line.startsWith("content-type"));
    expect(await ask(relay.port, { body, lines: [...kept, ...more] })).toMatchObject({ status: 200, json: { status: "accepted" } });
  });
});
