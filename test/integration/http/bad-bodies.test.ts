import { gzipSync } from "node:zlib";
import { afterAll, describe, expect, test } from "vitest";
import { startDownstream } from "../../../src/sandbox/downstream.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { expectAlive, expectError, freshEvent, quarantined, relayOfFile } from "./alive.ts";
import { ask, signature } from "./raw-client.ts";

const downstream = await startDownstream();
afterAll(() => downstream.close());
const relay = await relayOfFile({
  routes: [
    routeTo(`${downstream.url}/deep`, {
      name: "looks-deep",
      match: { where: { "a.a.a": { $exists: true } } },
      payload: "enriched",
    }),
    routeTo(`${downstream.url}/all`, {
      name: "all",
      payload: "enriched",
      match: { where: { secret: { $ne: "x" } } },
    }),
    routeTo(`${downstream.url}/values`, {
      name: "values",
      match: { where: { value: { $regex: "^a+$" }, number: { $gt: 5 } } },
    }),
  ],
  tracking: { unknown: "forward" },
  server: { badSignatureLimit: 100_000 },
});

const envelope = (changes: Readonly<Record<string, unknown>>) =>
  JSON.stringify({ ...freshEvent(), ...changes });
const nested = (open: string, close: string, bytes: number) => {
  const depth = Math.floor(bytes / (open.length + close.length));
  return open.repeat(depth) + close.repeat(depth);
};
const deepObject = `${'{"a":'.repeat(170_000)}1${"}".repeat(170_000)}`;

/** Signed rightly, and no envelope. The other reasons: test/unit/model/envelope.test.ts. */
const malformed: readonly (readonly [name: string, body: string | Buffer, fault: RegExp])[] = [
  ["no body", "", /empty/],
  [
    "a list of lists, a megabyte deep",
    nested("[", "]", 1024 * 1024),
    /^the body is not a JSON object$/,
  ],
  ["a megabyte of [", "[".repeat(1024 * 1024), /not valid JSON/],
  ["objects, a megabyte deep", deepObject, /^id is missing/],
  [
    "an event with a lone surrogate",
    envelope({}).replace(/"event":"[^"]*"/, '"event":"a\\udc00"'),
    /^event is not well-formed text/,
  ],
  ["gzip", gzipSync(envelope({})), /not valid UTF-8/],
  [
    "a prototype in place of fields",
    '{"__proto__":{"id":"a","event":"b","createdAt":"2026-11-21T12:00:00Z","data":{}}}',
    /^id /,
  ],
];

test.each(malformed)(
  "a signed body that is no envelope, %s: 202, stored unchanged with the reason",
  async (_name, body, fault) => {
    const bytes = Buffer.from(body);
    const before = await quarantined(relay);
    expectError(await ask(relay.port, { body, secret: "another secret" }), "bad_signature");
    expect(await quarantined(relay)).toEqual(before);
    const answer = await ask(relay.port, { body: bytes });
    expect(answer).toMatchObject({
      status: 202,
      json: { status: "quarantined", error: expect.stringMatching(fault) },
    });
    const [newest, ...others] = await quarantined(relay);
    expect(others).toEqual(before);
    expect(newest).toMatchObject({
      fault: answer.json?.error,
      size: bytes.length,
      secret: expect.stringMatching(/^[0-9a-f]{12}$/),
    });
    expect(await relay.ask(`/v1/events/${newest?.seq}`)).toMatchObject({
      body: { body: bytes.toString("base64") },
    });
    await expectAlive(relay);
  },
);

const status = (data: object) => envelope({ event: "message.status", data });
/** Unusual, and an envelope all the same. */
const unusual: readonly (readonly [name: string, body: string])[] = [
  ["blanks around", `\n\t ${envelope({ version: 2, trace: { spans: [1, 2] } })} \r\n`],
  ["an id of 256 emoji", envelope({ id: "😀".repeat(256) })],
  ["an id of 129 emoji", envelope({ id: "🦊".repeat(129) })],
  [
    "null data and no time",
    envelope({ event: "galaxy.collapsed", data: null, createdAt: undefined }),
  ],
  [
    "a wamid of 256 emoji and a long status",
    status({ wamid: "😀".repeat(256), status: `a${"😀".repeat(300)}` }),
  ],
  ["NUL in an id", envelope({ id: `${freshEvent().id}\0after` })],
  ["an id like a path", envelope({ id: `../../${freshEvent().id}?a=b&c#d%00` })],
  ["an id like SQL", envelope({ id: `'; DROP TABLE events; -- ${freshEvent().id}` })],
  [
    "lone surrogates",
    status({ wamid: "SURROGATE", status: "SURROGATE" }).replaceAll("SURROGATE", "\\ud800"),
  ],
  ["NUL in a wamid", status({ wamid: "wamid.\0B", status: "sent" })],
  [
    "NUL in a status and an error code",
    status({ wamid: "wamid.NUL", status: "fai\0led", errorCode: "\0" }),
  ],
  ["NUL in a run", envelope({ event: "automation.failed", data: { runId: "r\0", error: "\0" } })],
  ["a wamid that is an object", status({ wamid: { a: 1 }, status: ["sent"] })],
  [
    "huge numbers",
    status({ wamid: "wamid.C", status: "failed", errorCode: 7 }).replace(
      ":7",
      `:1e999,"n":${"9".repeat(5000)}`,
    ),
  ],
  ["a huge status", status({ wamid: "wamid.D", status: "s".repeat(900_000) })],
  [
    "a long text under a regular expression",
    envelope({ data: { value: `${"a".repeat(40_000)}!`, number: "1e3" } }),
  ],
  [
    "a megabyte of lists inside data",
    envelope({ data: { list: "HERE" } }).replace('"HERE"', nested("[", "]", 1024 * 1024 - 500)),
  ],
  ["a megabyte of objects inside data", envelope({ data: "HERE" }).replace('"HERE"', deepObject)],
  [
    "metadata of metadata",
    envelope({ data: "HERE" }).replace(
      '"HERE"',
      `${'{"metadata":'.repeat(60_000)}1${"}".repeat(60_000)}`,
    ),
  ],
  [
    "70,000 keys",
    envelope({ data: Object.fromEntries(Array.from({ length: 70_000 }, (_, n) => [`k${n}`, n])) }),
  ],
  [
    "__proto__ in data and beside it",
    envelope({ data: "HERE" })
      .replace('"HERE"', '{"__proto__":{"wamid":"x","secret":"x"},"constructor":{"prototype":1}}')
      .replace(/\}$/, ',"__proto__":{"polluted":true}}'),
  ],
  ["duplicate keys, the last one counts", envelope({}).replace(/^\{/, '{"id":"first",')],
];

describe("unusual, but an envelope", () => {
  test.each(unusual)("%s: 200 once, then a duplicate", async (_name, body) => {
    expect(await ask(relay.port, { body })).toMatchObject({
      status: 200,
      json: { status: "accepted" },
    });
    expect(await ask(relay.port, { body })).toMatchObject({
      status: 200,
      json: { status: "duplicate" },
    });
    const { id } = JSON.parse(body) as { id: string };
    const stored = await relay.ask(`/v1/events/${encodeURIComponent(id)}`);
    // No database finds such an id.
    if (id.includes("\0")) expect(stored.status).toBe(400);
    else
      expect(stored).toMatchObject({
        status: 200,
        body: { id, body: Buffer.from(body).toString("base64"), duplicates: 1 },
      });
    for (const path of id.includes("\0") ? [] : ["events", "explain"])
      expect(await relay.ask(`/v1/${path}/${encodeURIComponent(id)}?reveal=false`)).toMatchObject({
        status: 200,
      });
    await expectAlive(relay);
  });

  test("delivers their bytes, with the relay's object added at the end", async () => {
    const ids = new Set(unusual.map(([, body]) => (JSON.parse(body) as { id: string }).id));
    const bodyFor = (id: string) =>
      downstream.arrivals.find(({ path, eventId }) => path === "/all" && eventId === id)?.body;
    for (const id of ids) {
      const [, original = ""] =
        unusual.find(([, body]) => (JSON.parse(body) as { id: string }).id === id) ?? [];
      const arrived = await until(`the delivery of ${id.slice(0, 60)}`, () => bodyFor(id) ?? null);
      expect(arrived.toString("utf8").startsWith(original.trimEnd().slice(0, -1))).toBe(true);
      expect((JSON.parse(arrived.toString("utf8")) as { relay: unknown }).relay).toMatchObject({
        route: "all",
      });
    }
    const deepOnes = () => downstream.arrivals.filter(({ path }) => path === "/deep").length;
    await until("the deep one is delivered", () => deepOnes() > 0);
    expect(deepOnes()).toBe(1);
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined();
  });
});

test.each([
  [["content-type: text/plain"]],
  [["content-type: \u00e9;;;=\u00ff"]],
  [["content-type: application/json; charset=utf-16"]],
  [["content-encoding: gzip"]],
])("ignores headers that describe the body: %j", async (more) => {
  const body = envelope({});
  const lines = [
    "host: relay.test",
    `content-length: ${body.length}`,
    `x-acme-signature: ${signature(body)}`,
    ...more,
  ];
  expect(await ask(relay.port, { body, lines })).toMatchObject({
    status: 200,
    json: { status: "accepted" },
  });
});
