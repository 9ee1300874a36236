// Slow: it waits for deadlines of hostile servers.
import type net from "node:net";
import { describe, expect, test, vi } from "vitest";
import type { UrlDestination, UrlOutcome } from "../../../src/deliver/destinations/url.ts";
import { longestWaitMs, until } from "../../harness/until.ts";
import { attempt, destinationTo, told } from "./attempt.ts";
import { allClosed, onRequest, startHttp, startRaw } from "./downstream.ts";

const ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/** Writes a text each 10 ms for as long as somebody listens. */
function drip(socket: net.Socket, text: string): void {
  const timer = setInterval(() => socket.write(text), 10);
  socket.on("close", () => clearInterval(timer));
}

/** Writes a text again and again, as fast as it is read. */
function pump(socket: net.Socket, text: Buffer): void {
  const write = () => {
    while (!socket.destroyed && socket.writable) if (!socket.write(text)) return;
  };
  socket.on("drain", write);
  write();
}

/**
 * An attempt whose deadline passes at the step that `text` names. On a slow machine it may pass at
 * an earlier one; then another is made.
 */
function expired(destination: UrlDestination, text: RegExp): Promise<UrlOutcome> {
  return until(String(text), async () => {
    const outcome = await attempt(destination);
    expect(told(outcome)).toMatch(/^failed timeout: /);
    return text.test(told(outcome)) && outcome;
  });
}

describe("the deadline covers the whole exchange, and nothing leaks", () => {
  test.each([
    ["a downstream that never answers", "", "", "no answer within 200 ms"],
    ["dripping headers", "HTTP/1.1 200 OK\r\nx-drip: ", "x", "no answer within 200 ms"],
    ["endless 1xx", "", "HTTP/1.1 102 Processing\r\n\r\n", "no answer within 200 ms"],
    [
      "a dripping body, though its 200 came at once",
      "HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n",
      "x",
      "answered 200, but the answer did not end within 200 ms",
    ],
    [
      "a chunk extension without end",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;",
      "x",
      ".*",
    ],
  ])("%s", async (_what, head, text, said) => {
    const downstream = await startRaw((socket) => {
      socket.resume();
      if (head !== "") socket.write(head);
      if (text !== "") drip(socket, text);
    });
    const outcome = await expired(
      destinationTo(downstream.url, { timeout: "200ms" }),
      new RegExp(`^failed timeout: ${said}$`),
    );
    expect(outcome.tookMs).toBeGreaterThanOrEqual(190);
    await allClosed(downstream);
  });

  test("the deadline covers the wait for a free connection, and the next in the queue gets the place", async () => {
    let hang = true;
    const downstream = await startHttp((_request, response) => {
      if (!hang) response.end();
    });
    const destination = destinationTo(downstream.url, { timeout: "500ms", concurrency: 1 });
    const outcomes = await Promise.all([attempt(destination), attempt(destination)]);
    expect(told(outcomes[0])).toMatch(/^failed timeout: no (answer|connection) within 500 ms$/);
    // The first one's place may come free a moment before the second one's own deadline: then it is
    // cut off a step further.
    expect(told(outcomes[1])).toMatch(
      /^failed timeout: no (answer|(free )?connection) within 500 ms$/,
    );
    hang = false;
    await until(
      "the next one gets an answer",
      async () => told(await attempt(destination)) === "200",
    );
  });
});

describe("connections that break", () => {
  const half = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
  test.each<[string, string, "end" | "resetAndDestroy"]>([
    ["reset in the middle of the answer's head", "HTTP/1.1 200 OK\r\ncon", "resetAndDestroy"],
    ["reset in the middle of the answer's body, though its 200 came", half, "resetAndDestroy"],
    ["closed in the middle of the answer's body", half, "end"],
    [
      "closed in the middle of a chunked body",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n64\r\nhalf",
      "end",
    ],
    ["closed without an answer", "", "end"],
  ])("%s", async (_what, text, ending) => {
    const downstream = await startRaw((socket) =>
      onRequest(socket, () => {
        if (text === "") socket.end();
        else socket.write(text, () => socket[ending]());
      }),
    );
    expect(told(await attempt(destinationTo(downstream.url)))).toMatch(/^failed reset: /);
    expect(downstream.accepted).toBe(1);
    await allClosed(downstream);
  });

  test("closed at once, before the request was read", async () => {
    const downstream = await startRaw((socket) => socket.destroy());
    expect(told(await attempt(destinationTo(downstream.url)))).toMatch(/^failed reset: /);
  });
});

test("a flood of 1xx ends the attempt at once, not at the deadline", async () => {
  const flood = Buffer.from("HTTP/1.1 102 Processing\r\nx: y\r\n\r\n".repeat(100));
  const downstream = await startRaw((socket) => {
    onRequest(socket, () => pump(socket, flood));
  });
  const outcome = await attempt(destinationTo(downstream.url, { timeout: "5m" }));
  expect(told(outcome)).toBe("failed protocol: more than 32 interim answers (1xx)");
  await allClosed(downstream);
});

test("an answer before the request is read ends the attempt, and the request is not sent on", async () => {
  const downstream = await startRaw((socket) => {
    socket.pause();
    socket.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
  });
  const outcome = await attempt(destinationTo(downstream.url, { timeout: "5m" }), {
    body: Buffer.alloc(50 * 1024 ** 2),
  });
  expect(told(outcome)).toBe("200");
});

describe("answers that are not HTTP", () => {
  test.each([
    ["a status below 100", "HTTP/1.1 099 Too Low\r\ncontent-length: 0\r\n\r\n"],
    ["a greeting of another protocol", "SSH-2.0-OpenSSH_9.9\r\n"],
    ["two lengths", "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nok"],
    [
      "a length and chunks",
      "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ["garbage", "\0\x01\x02\xff garbage\r\n\r\n"],
    ["a wrong chunk size", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"],
    [
      "a switch of protocol",
      "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ],
    [
      "headers without end",
      `HTTP/1.1 200 OK\r\n${"x-long: ".padEnd(1000, "y").concat("\r\n").repeat(100)}`,
    ],
  ])("%s", async (_what, text) => {
    const downstream = await startRaw((socket) =>
      onRequest(socket, () => socket.write(text, "latin1")),
    );
    expect(told(await attempt(destinationTo(downstream.url)))).toMatch(/^failed protocol: /);
    await allClosed(downstream);
  });

  test("bytes after the answer do not become the next one's answer", async () => {
    let requests = 0;
    const downstream = await startRaw((socket) =>
      onRequest(socket, () => {
        requests += 1;
        socket.write(requests === 1 ? `${ok}HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n` : ok);
      }),
    );
    const destination = destinationTo(downstream.url);
    expect(told(await attempt(destination))).toBe("200");
    expect(told(await attempt(destination))).toBe("200");
    expect(downstream.accepted).toBe(2);
  });
});

describe("answers without end", () => {
  test.each(["content-length: 10737418240", "transfer-encoding: chunked"])(
    "10 GB cost nothing (%s)",
    async (framing) => {
      let sent = 0;
      const block = Buffer.alloc(64 * 1024, "x");
      const chunk = framing.startsWith("content")
        ? block
        : Buffer.concat([Buffer.from("10000\r\n"), block, Buffer.from("\r\n")]);
      const downstream = await startRaw((socket) => {
        onRequest(socket, () => {
          socket.write(`HTTP/1.1 200 OK\r\n${framing}\r\n\r\n`);
          socket.on("close", () => {
            sent += socket.bytesWritten;
          });
          pump(socket, chunk);
        });
      });
      const destination = destinationTo(downstream.url);
      const outcome = await attempt(destination);
      expect(told(outcome)).toBe("200");
      expect(outcome.response?.toString()).toBe("x".repeat(4096));
      await allClosed(downstream);
      await vi.waitFor(() => expect(sent).toBeGreaterThan(4096), longestWaitMs);
      // What fits the two sockets' buffers, and no more.
      expect(sent).toBeLessThan(32 * 1024 ** 2);
      expect(told(await attempt(destination))).toBe("200");
    },
  );
});

test("a hostile answer does not disturb other deliveries to the same destination", {
  tags: ["slow"],
}, async () => {
  const downstream = await startHttp((request, response) => {
    const kind = request.headers["x-wamid-relay-event"];
    if (kind === "hang") return;
    if (kind === "reset") request.socket.resetAndDestroy();
    else if (kind === "long") response.end("x".repeat(100_000));
    else response.end(kind);
  });
  const destination = destinationTo(downstream.url, { timeout: "5s", concurrency: 8 });
  // As many hang as there are connections: all of them wait for the deadline at once.
  const kinds = Array.from(
    { length: 48 },
    (_, index) => ["good", "hang", "good", "reset", "long", "good"][index % 6] as string,
  );
  // At most as many at a time as there are connections, as the dispatcher does.
  const outcomes: [string, string][] = [];
  const queue = [...kinds];
  await Promise.all(
    Array.from({ length: 8 }, async () => {
      for (let kind = queue.shift(); kind !== undefined; kind = queue.shift()) {
        outcomes.push([kind, told(await attempt(destination, { event: kind }))]);
      }
    }),
  );
  for (const [kind, outcome] of outcomes) {
    const expected = {
      good: /^200$/,
      long: /^200$/,
      hang: /^failed timeout/,
      reset: /^failed reset/,
    }[kind];
    expect(outcome).toMatch(expected as RegExp);
  }
  expect(outcomes).toHaveLength(48);
});
