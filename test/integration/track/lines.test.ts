import { connect, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { type AnyRelay, startRelayHere } from "../../harness/relay-here.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { rowsOf } from "../../harness/store-rows.ts";
import { until } from "../../harness/until.ts";

/** `POST /v1/messages/track` as NDJSON. */
async function postLines({ url }: Pick<AnyRelay, "url">, body: string | Buffer) {
  const answer = await fetch(`${url}/v1/messages/track`, {
    method: "POST",
    headers: { authorization: `Bearer ${relayToken}`, "content-type": "application/x-ndjson" },
    body,
  });
  const lines = (await answer.text()).trimEnd().split("\n");
  return {
    status: answer.status,
    type: answer.headers.get("content-type"),
    lines: lines.map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}

const wamids = (relay: AnyRelay) =>
  rowsOf<{ wamid: string }>(
    relay.storePath,
    "SELECT name AS wamid FROM subjects WHERE registered_at IS NOT NULL ORDER BY seq",
  ).map(({ wamid }) => wamid);
const line = (wamid: string, more: object = {}) =>
  `${JSON.stringify({ account: "main", wamid, ...more })}\n`;

test("answers each line in order, and a rejected line does not affect the others", async () => {
  const relay = await startRelayHere();
  const { status, type, lines } = await postLines(
    relay,
    [
      line("w1", { reference: "order-1", metadata: { team: "a" } }),
      "\r\n",
      line("w1", { reference: "order-1" }),
      line("w1", { reference: "order-2", metadata: { team: "b", more: 1 } }),
      "{not json}\n",
      line("w2", { acount: "typo" }),
      `${JSON.stringify({ account: "nobody", wamid: "w3" })}\n`,
      line("w4", { sentAt: "2126-01-01T00:00:00Z" }),
      line("w5", { reference: "x".repeat(70_000) }),
      line("w6", { sentAt: "2026-11-01T10:00:00-03:00", conversationId: "c1", id: "m6" }).trimEnd(),
    ].join(""),
  );
  expect([status, type]).toEqual([200, "application/x-ndjson"]);
  const conflict = {
    line: 4,
    wamid: "w1",
    result: "conflict",
    error:
      'this wamid is registered with another reference ("order-1", not "order-2") and another metadata.team',
    details: {
      reference: { stored: "order-1", given: "order-2" },
      "metadata.team": { stored: "a", given: "b" },
    },
  };
  expect(lines.slice(0, 5)).toEqual([
    { line: 1, wamid: "w1", result: "created" },
    { line: 3, wamid: "w1", result: "known" },
    conflict,
    { line: 5, wamid: null, result: "invalid", error: "is not valid JSON" },
    {
      line: 6,
      wamid: "w2",
      result: "invalid",
      error: expect.stringContaining("acount"),
      details: [expect.anything()],
    },
  ]);
  expect(lines.slice(5)).toEqual([
    {
      line: 7,
      wamid: "w3",
      result: "invalid",
      error: 'unknown account "nobody" (there are: main)',
      details: ["main"],
    },
    {
      line: 8,
      wamid: "w4",
      result: "invalid",
      error: "sentAt: lies in the future",
      details: [expect.anything()],
    },
    { line: 9, wamid: null, result: "invalid", error: "is longer than 65536 bytes" },
    { line: 10, wamid: "w6", result: "created" },
    { lines: 9, created: 2, known: 1, conflict: 1, invalid: 5 },
  ]);
  // Nothing of a refused line is kept.
  const rows = rowsOf(
    relay.storePath,
    "SELECT name AS wamid, service_id, reference, conversation_id, metadata, registered_sent_at FROM subjects ORDER BY seq",
  );
  expect(rows).toEqual([
    {
      wamid: "w1",
      service_id: null,
      reference: "order-1",
      conversation_id: null,
      metadata: '{"team":"a"}',
      registered_sent_at: null,
    },
    {
      wamid: "w6",
      service_id: "m6",
      reference: null,
      conversation_id: "c1",
      metadata: null,
      registered_sent_at: Date.parse("2026-11-01T13:00:00Z"),
    },
  ]);
});

/** Sends the head of a request for a body of `length` bytes, and `body`. */
function send(relay: AnyRelay, body: string, length: number): Socket {
  const socket = connect(relay.port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  socket.write(
    `POST /v1/messages/track HTTP/1.1\r\nhost: relay\r\nauthorization: Bearer ${relayToken}\r\ncontent-type: application/x-ndjson\r\ncontent-length: ${length}\r\n\r\n${body}`,
  );
  return socket;
}

test("registers nothing of a body that does not arrive whole, and keeps running", async () => {
  const relay = await startRelayHere();
  const [first, second] = [line("w1"), line("w2")];
  const socket = send(relay, first, first.length + second.length);
  await until(
    "the relay reads the body",
    async () => (await relay.ask("/healthz")).status === 200 && socket.bytesWritten > first.length,
  );
  socket.destroy();
  expect((await postLines(relay, first + second)).lines).toMatchObject([
    { result: "created" },
    { result: "created" },
    { lines: 2, created: 2 },
  ]);
  expect(wamids(relay)).toEqual(["w1", "w2"]);
  expect(relay.log().filter(({ level }) => level === "error" || level === 50)).toEqual([]);
});

test("takes 8 MiB, and rejects one byte more with what to do", async () => {
  const relay = await startRelayHere();
  const most = Buffer.alloc(8 * 1024 ** 2, "x".repeat(127).concat("\n"));
  const { status, lines } = await postLines(relay, most);
  expect([status, lines.length, lines.at(-1)]).toEqual([
    200,
    2 ** 16 + 1,
    expect.objectContaining({ invalid: 2 ** 16 }),
  ]);
  expect(await postLines(relay, Buffer.concat([most, Buffer.from("\n")]))).toMatchObject({
    status: 413,
    lines: [
      {
        error: "the body is larger than 8 MiB: send the lines in several requests",
        code: "too_large",
      },
    ],
  });
});

test("does not block other requests with 200,000 empty lines", async () => {
  const relay = await startRelayHere();
  let isOver = false;
  const posted = postLines(relay, "\n".repeat(200_000)).finally(() => {
    isOver = true;
  });
  let answered = 0;
  while (!isOver) {
    await relay.ask("/healthz");
    answered += 1;
  }
  expect((await posted).lines).toEqual([
    { lines: 0, created: 0, known: 0, conflict: 0, invalid: 0 },
  ]);
  // One or two if the lines were read in one go.
  expect(answered).toBeGreaterThan(5);
});

test("masks what a conflict quotes, for a token without the scope pii", async () => {
  const relay = await startRelayHere({
    settings: { control: { tokens: [{ name: "one", token: relayToken, scopes: ["track"] }] } },
  });
  const lineOf = (reference: string) =>
    `${JSON.stringify({ account: "main", wamid: "one", reference })}\n`;
  const { lines } = await postLines(relay, lineOf("+4915112345678") + lineOf("another"));
  expect(lines[1]).toMatchObject({ result: "conflict" });
  expect(JSON.stringify(lines[1])).toContain("[phone]");
  expect(JSON.stringify(lines[1])).not.toContain("4915112345678");
});
