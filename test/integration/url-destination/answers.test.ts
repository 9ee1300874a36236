import { expect, test } from "vitest";
import { attempt, destinationTo, told } from "./attempt.ts";
import { onRequest, startHttp, startRaw } from "./downstream.ts";

test("sends one POST with the exact body and keeps the answer's status, type and body", async () => {
  const downstream = await startHttp((_request, response) =>
    response.writeHead(201, { "content-type": "text/plain" }).end("thanks"),
  );
  const body = Buffer.from([0x7b, 0x22, 0xff, 0x00, 0x22, 0x7d]);
  const outcome = await attempt(destinationTo(`${downstream.url}?a=b%20c#part`), { body });
  expect(outcome).toMatchObject({
    result: { kind: "answered", status: 201, retryAfterMs: null },
    responseType: "text/plain",
  });
  expect(outcome.response?.toString()).toBe("thanks");
  expect(outcome.tookMs).toBeGreaterThanOrEqual(0);
  expect(downstream.seen).toHaveLength(1);
  expect(downstream.seen[0]).toMatchObject({ method: "POST", path: "/hook?a=b%20c" });
  expect(downstream.seen[0]?.body).toEqual(body);
});

test("sends an empty body with its length", async () => {
  const downstream = await startHttp((_request, response) => response.end());
  expect(told(await attempt(destinationTo(downstream.url), { body: Buffer.alloc(0) }))).toBe("200");
  expect(downstream.seen[0]?.headers["content-length"]).toBe("0");
});

test.each([301, 302, 303, 307, 308, 400, 410, 500, 503])(
  "%i is an answer, and not followed",
  async (status) => {
    const downstream = await startHttp((_request, response) =>
      response.writeHead(status, { location: "/elsewhere" }).end("no"),
    );
    expect(told(await attempt(destinationTo(downstream.url)))).toBe(String(status));
    expect(downstream.seen.map(({ path }) => path)).toEqual(["/hook"]);
  },
);

test.each([
  [429, "30", "429 retry-after 30000"],
  [429, "nonsense", "429"],
  [503, "999999999", "503 retry-after 120000"],
])("reads Retry-After of %i: %s", async (status, retryAfter, outcome) => {
  const downstream = await startHttp((_request, response) =>
    response.writeHead(status, { "retry-after": retryAfter }).end(),
  );
  expect(told(await attempt(destinationTo(downstream.url, { maxRetryAfter: "2m" })))).toBe(outcome);
});

test("ignores early hints and other 1xx answers", async () => {
  const downstream = await startRaw((socket) => {
    onRequest(socket, () => {
      socket.write(
        "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\nretry-after: 5\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n",
      );
      socket.write("HTTP/1.1 202 Accepted\r\ncontent-length: 2\r\n\r\nok");
    });
  });
  const outcome = await attempt(destinationTo(downstream.url));
  expect(told(outcome)).toBe("202");
  expect(outcome.response?.toString()).toBe("ok");
});

test("ignores a 100 Continue that it did not ask for, on each request of a connection", async () => {
  const downstream = await startHttp((_request, response) => {
    response.writeContinue();
    response.end("HTTP/1.1 100 Continue\r\n\r\n");
  });
  const destination = destinationTo(downstream.url);
  for (const count of [1, 2]) {
    const outcome = await attempt(destination);
    expect(told(outcome)).toBe("200");
    expect(outcome.response?.toString()).toBe("HTTP/1.1 100 Continue\r\n\r\n");
    expect([downstream.seen.length, downstream.accepted]).toEqual([count, 1]);
  }
});

test("reads an answer without length until its connection ends", async () => {
  const downstream = await startRaw((socket) =>
    onRequest(socket, () => socket.end("HTTP/1.1 200 OK\r\n\r\nall of it")),
  );
  const outcome = await attempt(destinationTo(downstream.url));
  expect(told(outcome)).toBe("200");
  expect(outcome.response?.toString()).toBe("all of it");
});

test("keeps an answer of 4 KiB whole and reuses its connection", async () => {
  const downstream = await startHttp((_request, response) => {
    response.write("a".repeat(1000));
    setImmediate(() => response.end("b".repeat(3096)));
  });
  const destination = destinationTo(downstream.url);
  const outcome = await attempt(destination);
  expect(outcome.response?.toString()).toBe("a".repeat(1000) + "b".repeat(3096));
  await attempt(destination);
  expect(downstream.accepted).toBe(1);
});

test("passes latin1 header values, and fails only the attempt for an invalid one", async () => {
  const downstream = await startHttp((_request, response) => response.end());
  const destination = destinationTo(downstream.url);
  await attempt(destination, { passHeaders: { "x-acme-signature": "caf\xe9" } });
  expect(downstream.seen[0]?.headers["x-acme-signature"]).toBe("caf\xe9");
  expect(told(await attempt(destination, { contentType: "text/plain\r\nx-evil: 1" }))).toMatch(
    /^failed protocol: /,
  );
  expect(told(await attempt(destination))).toBe("200");
  expect(downstream.seen).toHaveLength(2);
});
