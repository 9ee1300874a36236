import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { allEndpoints } from "../../../src/model/endpoints/table.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { rowsOf } from "../../harness/store-rows.ts";
import { relayOfFile } from "./alive.ts";

const relay = await relayOfFile();

async function send(
  path: string,
  body: Buffer,
  headers: Record<string, string>,
): Promise<[number, unknown]> {
  const answer = await fetch(relay.url + path, {
    method: "POST",
    body,
    headers: { authorization: `Bearer ${relayToken}`, ...headers },
  });
  return [answer.status, ((await answer.json()) as { code?: unknown }).code];
}

const latin1 = Buffer.from('{"wamid":"wamid.sali\xf3"}', "latin1");
const ascii = Buffer.from('{"wamid":"wamid.salio"}');
const json = "application/json";

test("every endpoint with a body refuses bytes that are not UTF-8, another charset, and a compressed body", async () => {
  const paths = allEndpoints
    .filter(({ body }) => body !== undefined)
    .map(({ path }) => path.replace(/:\w+/g, "some"));
  expect(paths).toEqual(
    expect.arrayContaining([
      "/v1/messages",
      "/v1/messages/track",
      "/v1/automations/some/runs",
      "/v1/replay",
      "/v1/session",
    ]),
  );
  for (const path of paths) {
    expect([path, await send(path, latin1, { "content-type": json })]).toEqual([
      path,
      [400, "bad_request"],
    ]);
    for (const [body, headers] of [
      [ascii, { "content-type": `${json}; charset=latin1` }],
      [ascii, { "content-type": `${json};Charset="ISO-8859-1"` }],
      [gzipSync(ascii), { "content-type": json, "content-encoding": "gzip" }],
      [ascii, { "content-type": json, "content-encoding": "br" }],
      [ascii, { "content-type": "text/plain" }],
    ] as const)
      expect([path, headers, await send(path, body, headers)]).toEqual([
        path,
        headers,
        [415, "unsupported_media_type"],
      ]);
  }
  expect(rowsOf(relay.storePath, "SELECT name AS wamid FROM subjects")).toEqual([]);
});

test("accepts UTF-8 by each of its names, and identity as the encoding", async () => {
  for (const type of [
    json,
    `${json}; charset=utf-8`,
    `${json}; charset="UTF8"`,
    `${json}; charset=us-ascii`,
  ]) {
    const body = Buffer.from(`{"wamid":"wamid.salió"}`);
    expect([
      type,
      await send("/v1/messages/track", body, {
        "content-type": type,
        "content-encoding": "identity",
      }),
    ]).toEqual([type, [200, undefined]]);
  }
  expect(rowsOf(relay.storePath, "SELECT name AS wamid FROM subjects")).toEqual([
    { wamid: "wamid.salió" },
  ]);
});

test("refuses lines in another charset or compressed, and each line that is not UTF-8", async () => {
  const ndjson = "application/x-ndjson";
  const refused = [415, "unsupported_media_type"];
  expect(
    await send("/v1/messages/track", ascii, { "content-type": `${ndjson}; charset=latin1` }),
  ).toEqual(refused);
  expect(
    await send("/v1/messages/track", gzipSync(ascii), {
      "content-type": ndjson,
      "content-encoding": "gzip",
    }),
  ).toEqual(refused);
  const lines = Buffer.concat([latin1, Buffer.from("\n"), ascii]);
  const answer = await fetch(`${relay.url}/v1/messages/track`, {
    method: "POST",
    body: lines,
    headers: { authorization: `Bearer ${relayToken}`, "content-type": ndjson },
  });
  const report = (await answer.text()).trim().split("\n");
  expect(report.map((line) => (JSON.parse(line) as { result?: string }).result)).toEqual([
    "invalid",
    "created",
    undefined,
  ]);
});

test("refuses half a surrogate pair in what is sent to a customer", async () => {
  const body = Buffer.from('{"to":"+5491155550100","text":"sali\\ud83d"}');
  expect(await send("/v1/messages", body, { "content-type": json })).toEqual([400, "bad_request"]);
});

test("refuses a query that is not percent-encoded UTF-8", async () => {
  for (const query of ["event=%zz", "event=%E0%A4%41", "wamid=%F3", "event=a%"])
    expect([query, await relay.ask(`/v1/events?${query}`)]).toMatchObject([
      query,
      { status: 400, body: { code: "bad_request" } },
    ]);
  expect(await relay.ask("/v1/events?q=%C3%B3+%25")).toMatchObject({ status: 200 });
});

test("shows the console, not JSON, for an address that is not percent-encoded UTF-8", async () => {
  const { status, headers } = await fetch(`${relay.url}/console/events/%E0%A4%A?x=%zz`, {
    redirect: "manual",
  });
  expect([status, headers.get("location")]).toEqual([
    302,
    "/console/events/%25E0%25A4%25A?x=%25zz",
  ]);
  expect(
    (await fetch(`${relay.url}${headers.get("location")}`)).headers.get("content-type"),
  ).toMatch(/^text\/html/);
  expect(await relay.ask("/v1/events/%E0%A4%A")).toMatchObject({
    status: 400,
    body: { code: "bad_request" },
  });
});

test("refuses a NUL character in ids, filters and paths", async () => {
  const post = (path: string, body: object) =>
    send(path, Buffer.from(JSON.stringify(body)), { "content-type": json });
  for (const given of [
    { wamid: "wamid\0" },
    { wamid: "wamid.a", reference: "a\0b" },
    { wamid: "wamid.a", id: "\0" },
  ])
    expect([given, await post("/v1/messages/track", given)]).toEqual([given, [400, "bad_request"]]);
  expect(
    await post("/v1/messages/track", { wamid: "wamid.a", metadata: { note: "a\0b" } }),
  ).toEqual([200, undefined]);
  expect(await post("/v1/replay", { errorCode: "4\0" })).toEqual([400, "bad_request"]);
  for (const path of ["/v1/events?wamid=%00", "/v1/messages/a%00b"])
    expect([path, (await relay.ask(path)).status]).toEqual([path, 400]);
});
