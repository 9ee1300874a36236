// Slow: it waits for silent senders to time out.
import { readFileSync } from "node:fs";
import http from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { type AnyRelay, startRelayHere } from "../../harness/relay-here.ts";
import { startRelay } from "../../harness/relay-process.ts";
import { rowsOf } from "../../harness/store-rows.ts";
import { openStream } from "./open-stream.ts";

const wamids = (relay: AnyRelay) =>
  rowsOf<{ wamid: string }>(relay.storePath, "SELECT wamid FROM messages WHERE registered_at IS NOT NULL ORDER BY seq").map(
    ({ wamid }) => wamid,
  );
const line = (wamid: string, more: object = {}) => `${JSON.stringify({ account: "main", wamid, ...more })}\n`;

test("answers each line in order, and a rejected line does not affect the others", async () => {
  const relay = await startRelayHere();
  const stream = await openStream(relay);
  stream.write(
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
  stream.end();
  const { status, type, lines } = await stream.whole();
  expect([status, type]).toEqual([200, "application/x-ndjson"]);
  const conflict = {
    line: 4,
    wamid: "w1",
    result: "conflict",
    error: 'this wamid is registered with another reference ("order-1", not "order-2") and another metadata.team ("a", not "b")',
    details: { reference: { stored: "order-1", given: "order-2" }, "metadata.team": { stored: "a", given: "b" } },
  };
  expect(lines.slice(0, 5)).toEqual([
    { line: 1, wamid: "w1", result: "created" },
    { line: 3, wamid: "w1", result: "known" },
    conflict,
    { line: 5, wamid: null, result: "invalid", error: "is not valid JSON" },
    { line: 6, wamid: "w2", result: "invalid", error: expect.stringContaining("acount"), details: [expect.anything()] },
  ]);
  expect(lines.slice(5)).toEqual([
    { line: 7, wamid: "w3", result: "invalid", error: 'unknown account "nobody" (there are: main)', details: ["main"] },
    { line: 8, wamid: "w4", result: "invalid", error: "sentAt: lies in the future", details: [expect.anything()] },
    { line: 9, wamid: null, result: "invalid", error: "is longer than 65536 bytes" },
    { line: 10, wamid: "w6", result: "created" },
    { lines: 9, created: 2, known: 1, conflict: 1, invalid: 5 },
  ]);
  // Nothing of a refused line is kept.
  const rows = rowsOf(
    relay.storePath,
    "SELECT wamid, service_id, reference, conversation_id, metadata, told_sent_at FROM messages ORDER BY seq",
  );
  expect(rows).toEqual([
    { wamid: "w1", service_id: null, reference: "order-1", conversation_id: null, metadata: '{"team":"a"}', told_sent_at: null },
    {
      wamid: "w6",
      service_id: "m6",
      reference: null,
      conversation_id: "c1",
      metadata: null,
      told_sent_at: Date.parse("2026-11-01T13:00:00Z"),
    },
  ]);
});

test("answers each line of a slow sender as it arrives, for longer than server.requestTimeout", { tags: ["slow"] }, async () => {
  const relay = await startRelayHere({ settings: { server: { requestTimeout: "1s" } } });
  const stream = await openStream(relay);
  for (let n = 1; n <= 9; n += 1) {
    const text = line(`w${n}`);
    stream.write(text.slice(0, 5));
    await wait(400);
    stream.write(text.slice(5));
    expect(await stream.next()).toEqual({ line: n, wamid: `w${n}`, result: "created" });
  }
  stream.end();
  expect(await stream.next()).toEqual({ lines: 9, created: 9, known: 0, conflict: 0, invalid: 0 });
  expect(await stream.next()).toBeNull();
});

test("reports to a silent sender where it stopped, and disconnects it", { tags: ["slow"] }, async () => {
  const relay = await startRelayHere({ settings: { server: { requestTimeout: "1s" } } });
  const stream = await openStream(relay);
  stream.write(`${line("w1")}${line("w2")}${line("w3").slice(0, 10)}`);
  expect(await stream.next()).toMatchObject({ line: 1 });
  expect(await stream.next()).toMatchObject({ line: 2 });
  expect(await stream.next()).toEqual({
    lines: 2,
    created: 2,
    known: 0,
    conflict: 0,
    invalid: 0,
    stoppedAt: 3,
    error: "no line arrived in time",
    code: "request_timeout",
  });
  await stream.closed();
  const silent = await openStream(relay);
  silent.flush();
  expect(await silent.whole()).toMatchObject({ status: 408, lines: [{ code: "request_timeout" }] });
  await relay.stop();
});

test("disconnects a sender that never reads the answer, and uses no memory for it", { tags: ["slow"] }, async () => {
  const relay = await startRelay({ settings: { server: { requestTimeout: "1s" } } });
  const stream = await openStream(relay, { read: false });
  let n = 0;
  let most = 0;
  const gone = stream.closed();
  let isOver = false;
  void gone.then(() => {
    isOver = true;
  });
  // Invalid ones have the longest answers: more comes out than goes in.
  while (!isOver && n < 5_000_000) {
    n += 1_000;
    await Promise.race([stream.write("{}\n".repeat(1_000)), gone]);
    if (n % 20_000 === 0) most = Math.max(most, residentMb(relay.pid()));
  }
  await gone;
  expect(n).toBeLessThan(5_000_000);
  expect(most).toBeLessThan(250);
  const stats = await relay.ask("/v1/stats");
  expect(stats.status).toBe(200);
});

test("keeps what was answered when the sender disconnects, and keeps running", async () => {
  const relay = await startRelayHere();
  const stream = await openStream(relay);
  stream.write(`${line("w1")}${line("w2").slice(0, 20)}`);
  expect(await stream.next()).toMatchObject({ line: 1, result: "created" });
  stream.destroy();
  const again = await openStream(relay);
  again.write(`${line("w1")}${line("w2")}`);
  again.end();
  expect((await again.whole()).lines).toEqual([
    { line: 1, wamid: "w1", result: "known" },
    { line: 2, wamid: "w2", result: "created" },
    { lines: 2, created: 1, known: 1, conflict: 0, invalid: 0 },
  ]);
  expect(wamids(relay)).toEqual(["w1", "w2"]);
  expect(relay.log().filter(({ level }) => level === "error" || level === 50)).toEqual([]);
});

test("reports the line at which the relay stops, and stops", async () => {
  const relay = await startRelay();
  const stream = await openStream(relay);
  stream.write(line("w1"));
  expect(await stream.next()).toMatchObject({ line: 1 });
  const stopped = relay.stop();
  expect(await stream.next()).toMatchObject({ lines: 1, stoppedAt: 2, code: "shutting_down" });
  stream.end();
  expect(await stopped).toEqual({ code: 0, signal: null });
});

test("rejects a missing token, a missing scope and a compressed body before it reads anything", async () => {
  const relay = await startRelayHere();
  for (const [headers, status] of [
    [{ authorization: "Bearer wrong" }, 401],
    [{ "content-encoding": "gzip" }, 400],
    [{ "content-type": "application/ndjson" }, 400],
  ] as const) {
    const stream = await openStream(relay, { headers });
    stream.write(line("w1"));
    stream.end();
    expect((await stream.whole()).status).toBe(status);
  }
  expect(wamids(relay)).toEqual([]);
});

test("accepts an empty stream, and one that ends in the middle of a line", async () => {
  const relay = await startRelayHere();
  const empty = await openStream(relay);
  empty.end();
  expect((await empty.whole()).lines).toEqual([{ lines: 0, created: 0, known: 0, conflict: 0, invalid: 0 }]);
  const half = await openStream(relay);
  half.write(line("w1") + line("w2").slice(0, 12));
  half.end();
  expect((await half.whole()).lines).toMatchObject([{ result: "created" }, { line: 2, result: "invalid" }, { lines: 2 }]);
});

test("reuses the connection of a sender with a content length", async () => {
  const relay = await startRelayHere();
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const ports: (number | undefined)[] = [];
  for (const body of [line("w1"), line("w2")]) {
    const stream = await openStream(relay, { agent, headers: { "content-length": String(body.length) } });
    stream.write(body);
    stream.end();
    expect((await stream.whole()).lines).toMatchObject([{ result: "created" }, { lines: 1 }]);
    ports.push(stream.localPort());
  }
  expect(ports[0]).toBe(ports[1]);
  agent.destroy();
});

function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;
}
