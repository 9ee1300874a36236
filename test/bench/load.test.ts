// @module-tag slow: it measures for a second.
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import fc from "fast-check";
import { afterEach, expect, test } from "vitest";
import { numbersIn } from "../../bench/events.ts";
import { readAnswer } from "../../bench/load/connection.ts";
import { latencyOf } from "../../bench/load/measure.ts";
import { makePool } from "../../bench/load/pool.ts";
import { type RunSpec, runLoad } from "../../bench/load/run.ts";

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

async function serve(listener: RequestListener): Promise<number> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  closing.push(() => void server.close().closeAllConnections());
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

function spec(port: number, change: Partial<RunSpec> = {}): RunSpec {
  return {
    port,
    limit: 1000,
    connections: 8,
    warmupMs: 0,
    measureMs: null,
    rate: null,
    serverPid: null,
    keepSentAt: false,
    ...change,
  };
}

test("sends every request of the pool once, whole, and counts the answers by status", async () => {
  const seen = new Map<number, number>();
  const port = await serve((request, response) => {
    let body = "";
    request.setEncoding("latin1").on("data", (text: string) => {
      body += text;
    });
    request.on("end", () => {
      const sequence = numbersIn(Buffer.from(body))?.sequence ?? -1;
      seen.set(sequence, (seen.get(sequence) ?? 0) + 1);
      response.writeHead(sequence % 10 === 0 ? 503 : 200, { "content-length": 2 }).end("{}");
    });
  });
  const result = await runLoad(spec(port), makePool({ run: 1, count: 500 }));
  expect(result.statuses).toEqual({ "200": 450, "503": 50 });
  expect(result.sent).toBe(500);
  expect(result.requests).toBe(500);
  expect(seen.size).toBe(500);
  expect([...seen.values()].every((times) => times === 1)).toBe(true);
});

test("counts requests without an answer", async () => {
  let taken = 0;
  const port = await serve((request, response) => {
    request.resume();
    taken += 1;
    if (taken % 100 === 0) request.socket.destroy();
    else response.writeHead(200, { "content-length": 0 }).end();
  });
  const result = await runLoad(spec(port), makePool({ run: 1, count: 500 }));
  expect(result.unanswered).toBe(5);
  expect(result.statuses).toEqual({ "200": 495 });
});

test("in an open loop a stall counts for every request that was due meanwhile", async () => {
  let stalledUntil = 0;
  const port = await serve((request, response) => {
    request.resume();
    if (stalledUntil === 0) stalledUntil = performance.now() + 300;
    const answer = () => response.writeHead(200, { "content-length": 0 }).end();
    const left = stalledUntil - performance.now();
    if (left > 0) setTimeout(answer, left);
    else answer();
  });
  // 500 a second for a second, of which the first 300 ms stall: 150 requests were due in that time,
  // with 4 connections.
  const result = await runLoad(
    spec(port, { connections: 4, rate: 500, measureMs: 1000 }),
    makePool({ run: 1, count: 1000 }),
  );
  expect(result.requests).toBe(500);
  expect(result.latency.max).toBeGreaterThan(280);
  // The slowest fifth waited 100 ms and more: a generator that measures from the real sending would
  // see four such.
  expect(result.latency.p99).toBeGreaterThan(200);
});

test("a closed loop whose server stalls for longer than the window measures the first answer", async () => {
  const port = await serve((request, response) => {
    request.resume();
    setTimeout(() => response.writeHead(200, { "content-length": 0 }).end(), 200);
  });
  const result = await runLoad(spec(port, { measureMs: 20 }), makePool({ run: 1, count: 100 }));
  expect(result.requests).toBeGreaterThan(0);
  expect(result.perSecond).toBeGreaterThan(0);
  expect(result.statuses).toEqual({ "200": result.sent });
});

test("reads a whole answer however it is split", async () => {
  const answer = Buffer.from(
    "HTTP/1.1 202 Accepted\r\ndate: now\r\nContent-Length: 12\r\n\r\nhello, world",
  );
  await fc.assert(
    fc.asyncProperty(fc.nat(answer.length - 2), async (cut) => {
      const server = createTcpServer((socket) => {
        socket.on("error", () => {});
        socket.on("data", () => {
          socket.write(answer.subarray(0, cut + 1));
          setImmediate(() => socket.write(answer.subarray(cut + 1)));
        });
      }).listen(0, "127.0.0.1");
      await once(server, "listening");
      const port = (server.address() as AddressInfo).port;
      const result = await runLoad(spec(port, { connections: 1 }), makePool({ run: 1, count: 2 }));
      server.close();
      expect(result.statuses).toEqual({ "202": 2 });
    }),
    { numRuns: 30 },
  );
});

test("reports an answer that cannot be measured as an error", () => {
  expect(readAnswer(Buffer.from("HTTP/1.1 200 OK\r\n"))).toBeNull();
  expect(readAnswer(Buffer.from("HTTP/1.1 204 No Content\r\n\r\n"))).toEqual({
    status: 204,
    length: 27,
  });
  expect(() =>
    readAnswer(Buffer.from("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")),
  ).toThrow("without content-length");
});

test("percentiles are by nearest rank", () => {
  const times = Float64Array.from({ length: 200 }, (_, index) => 200 - index);
  expect(latencyOf(times)).toEqual({ p50: 100, p99: 198, max: 200 });
});
