import { brotliCompressSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { until } from "../../../harness/until.ts";
import { freePort } from "../../../setup/free-port.ts";
import { startRaw } from "../../url-destination/downstream.ts";
import { failureOf, noRetry, openClient, openScripted } from "./open-client.ts";
import { bytesOf, jsonAnswer, startScripted } from "./scripted-service.ts";

const message = '{"id":"1","wamid":"wamid.A","status":"sent","conversationId":"2"}';
const ok = jsonAnswer(200, message);
const body = { to: "+5491155550000", text: "hola" };

describe("an answer that differs from the document is malformed, and its call may have taken effect:", () => {
  test.each([
    ["broken JSON", jsonAnswer(201, '{"id":"1",'), "the body is not JSON"],
    ["no body", jsonAnswer(201, ""), "the body is empty"],
    ["no content", bytesOf("HTTP/1.1 204 No Content"), "the body is empty"],
    [
      "not UTF-8",
      bytesOf("HTTP/1.1 201 Created", Buffer.from('{"id":"\xff"}', "latin1")),
      "the body is not UTF-8",
    ],
    [
      "HTML",
      bytesOf("HTTP/1.1 200 OK\ncontent-type: text/html", "<p>Entrá a la red"),
      "the body is not JSON",
    ],
    [
      "no wamid",
      jsonAnswer(201, '{"id":"1","status":"pending","conversationId":"c"}'),
      "wamid: is missing",
    ],
    [
      "a wamid of another type",
      jsonAnswer(201, '{"id":"1","wamid":{},"status":"pending","conversationId":"c"}'),
      "wamid: must be text or a number",
    ],
    ["another shape", jsonAnswer(201, "[]"), "the body: must be an object, not a list"],
  ])("%s", async (_name, bytes, problem) => {
    const { service, client, admission } = await openScripted(() => bytes);
    const error = await failureOf(client.sendMessage(body));
    expect(error).toMatchObject({ kind: "malformed", outcome: "unknown", text: null });
    expect(error.failure).toMatchObject({ problem: expect.stringContaining(problem) });
    expect(service.seen).toHaveLength(1);
    expect(admission.settled).toEqual([[{ type: "unknown" }]]);
  });

  test("a 404 without an error text may come from another server", async () => {
    const texts = ["<h1>nginx</h1>", "", "{}", '{"error":{}}', '{"statusCode":404}'];
    const { client } = await openScripted((_request, number) =>
      jsonAnswer(404, texts[number - 1] ?? ""),
    );
    for (const _ of texts)
      expect(await failureOf(client.getMessage("1"))).toMatchObject({
        kind: "malformed",
        status: 404,
        outcome: "not-done",
        text: null,
      });
  });

  test("stops reading an answer above the limit", async () => {
    const { service, client } = await openScripted(
      (request, _number, socket) => {
        if (request.path.endsWith("/me")) return ok;
        socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        const flood = () => {
          while (!socket.destroyed && socket.write(`3e8\r\n${"x".repeat(1000)}\r\n`));
        };
        socket.on("drain", flood);
        flood();
        return undefined;
      },
      { maxBodyBytes: 50_000 },
    );
    const error = await failureOf(client.getMessage("1"));
    expect(error).toMatchObject({ kind: "malformed", status: 200, outcome: "unknown" });
    expect(error.message).toContain("longer than 50000 bytes");
    await until("the flooding connection to be closed", () => service.open.size === 0);
    expect(await client.me()).toMatchObject(JSON.parse(message));
  });

  test("reads an answer at the limit", async () => {
    const { client } = await openScripted(() => ok, { maxBodyBytes: message.length });
    expect(await client.getMessage("1")).toMatchObject(JSON.parse(message));
  });
});

describe("the status alone decides the kind of an error; the body adds the service's text:", () => {
  const kinds = [
    [400, "validation"],
    [401, "unauthenticated"],
    [402, "plan"],
    [409, "conflict"],
    [429, "rate-limited"],
    [500, "unexpected"],
  ] as const;
  const bodies = [
    ["<h1>nginx</h1>", null],
    ["", null],
    ["{}", null],
    ['{"error":{"message":"No va"}}', "No va"],
    ['{"message":"No va"}', "No va"],
    ['{"error":"No va","cause":{"type":"novel"}}', "No va"],
    ['{"error":{"message":"No va"},"cause":[1]}', "No va"],
    [`{"error":"${"x".repeat(70_000)}"}`, null],
  ] as const;

  test.each(kinds)("%d", async (status, kind) => {
    const { client, admission } = await openScripted(
      (_request, number) => jsonAnswer(status, bodies[number - 1]?.[0] ?? ""),
      {
        retry: noRetry,
      },
    );
    const type = { 401: "unauthenticated", 429: "rate-limited" }[status as number] ?? "answered";
    for (const [, text] of bodies) {
      expect(await failureOf(client.sendMessage(body))).toMatchObject({ kind, status, text });
      expect(admission.settled.at(-1)).toMatchObject([{ type }]);
    }
  });

  test("also when the body is too long", async () => {
    const { client, admission } = await openScripted(() => jsonAnswer(401, "x".repeat(2000)), {
      maxBodyBytes: 1000,
    });
    expect(await failureOf(client.me())).toMatchObject({ kind: "unauthenticated" });
    expect(admission.settled).toEqual([[{ type: "unauthenticated" }]]);
  });
});

describe("a 2xx with a wamid is a sent message, also with missing fields:", () => {
  test.each([
    ['{"wamid":"wamid.A"}', { id: null, status: "pending", conversationId: null }],
    [
      '{"id":null,"wamid":"wamid.A","status":null,"conversationId":null}',
      { id: null, status: "pending", conversationId: null },
    ],
    [
      '{"id":7,"wamid":"wamid.A","status":5,"conversationId":8}',
      { id: "7", status: "pending", conversationId: "8" },
    ],
    [
      '{"id":12345678901234567890,"wamid":"wamid.A","status":""}',
      { id: "12345678901234567890", status: "pending", conversationId: null },
    ],
    [
      '{"id":{},"wamid":"wamid.A","status":"sent","conversationId":[]}',
      { id: null, status: "sent", conversationId: null },
    ],
  ])("%s", async (text, facts) => {
    const { client, admission } = await openScripted((_request, number) =>
      jsonAnswer([200, 201, 202][number - 1] ?? 200, text),
    );
    for (let calls = 0; calls < 3; calls += 1)
      expect(await client.sendMessage(body)).toMatchObject({ wamid: "wamid.A", ...facts });
    expect(admission.settled.flat()).toEqual(Array(3).fill({ type: "answered" }));
  });

  test("a 2xx with a runId is a started run", async () => {
    const { client } = await openScripted((_request, number) =>
      jsonAnswer(number === 1 ? 200 : 201, number === 1 ? '{"runId":9}' : '{"runId":"r"}'),
    );
    expect(await client.startRun("7")).toMatchObject({ runId: "9" });
    expect(await client.startRun("7")).toMatchObject({ runId: "r" });
  });
});

describe("compressed answers", () => {
  test("are read, although the request accepts identity only", async () => {
    const service = await startScripted(() =>
      bytesOf("HTTP/1.1 200 OK\ncontent-encoding: BR", brotliCompressSync(message)),
    );
    expect(await openClient(service.baseUrl).client.getMessage("1")).toEqual({
      ...JSON.parse(message),
      errorCode: null,
    });
    expect(service.seen[0]?.headers["accept-encoding"]).toBe("identity");
  });
});

describe("no whole answer, and the request may have left: unknown", () => {
  test.each([
    ["closed without an answer", ""],
    [
      "half of the body",
      `HTTP/1.1 201 Created\r\ncontent-length: ${message.length}\r\n\r\n${message.slice(0, 20)}`,
    ],
    ["not HTTP", "SSH-2.0-OpenSSH_9.9\r\n\r\n"],
  ])("%s", async (_name, text) => {
    for (const ending of ["end", "resetAndDestroy"] as const) {
      const { client, admission } = await openScripted(
        (_request, _number, socket) => {
          if (text === "") socket[ending]();
          else socket.write(text, () => socket[ending]());
          return undefined;
        },
        { retry: noRetry },
      );
      const error = await failureOf(client.sendMessage(body));
      expect(error).toMatchObject({
        kind: "network",
        status: null,
        text: null,
        outcome: "unknown",
      });
      expect(error.failure).toEqual({
        kind: "network",
        code: expect.stringMatching(/^[A-Za-z_]+$/),
      });
      expect(admission.settled).toEqual([[{ type: "unknown" }]]);
    }
  });

  test("silence until the deadline", async () => {
    const { service, client, clock } = await openScripted(() => undefined);
    const failing = failureOf(client.sendMessage(body));
    await until("the request to arrive", () => service.seen.length === 1);
    clock.expire();
    const error = await failing;
    expect(error).toMatchObject({
      kind: "timeout",
      outcome: "unknown",
      failure: { kind: "timeout", timeoutMs: 10_000 },
    });
    await until("the silent connection to be closed", () => service.open.size === 0);
  });
});

describe("without a connection nothing was done", () => {
  test("a closed port", async () => {
    const { client, admission } = openClient(`http://127.0.0.1:${await freePort()}`, {
      retry: noRetry,
    });
    const error = await failureOf(client.sendMessage(body));
    expect(error).toMatchObject({
      kind: "network",
      outcome: "not-done",
      failure: { code: "ECONNREFUSED" },
    });
    expect(admission.settled).toEqual([[{ type: "not-sent" }]]);
  });

  test("a TLS handshake that hangs until the deadline, and a send that waits for it", async () => {
    const downstream = await startRaw(() => {});
    const { client, clock } = openClient(`https://127.0.0.1:${downstream.port}`, {
      retry: noRetry,
      connections: 1,
    });
    const failing = [failureOf(client.sendMessage(body)), failureOf(client.sendMessage(body))];
    await until("the connection", () => downstream.accepted === 1 && clock.deadlines() === 2);
    clock.expire();
    for (const error of await Promise.all(failing))
      expect(error).toMatchObject({ kind: "timeout", outcome: "not-done" });
    for (const socket of downstream.open) socket.destroy();
  });

  test("a send that waited for a connection until its deadline is not sent afterwards", async () => {
    let release = () => {};
    const { service, client, clock } = await openScripted(
      (_request, number, socket) => {
        if (number > 1) return ok;
        release = () => socket.write(ok);
        return undefined;
      },
      { retry: noRetry, connections: 1 },
    );
    const first = client.getMessage("1");
    await until("the first to arrive", () => service.seen.length === 1);
    const waiting = failureOf(client.sendMessage(body));
    await until("the second to wait", () => clock.deadlines() === 2);
    clock.expireNewest();
    expect(await waiting).toMatchObject({ kind: "timeout", outcome: "not-done" });
    release();
    await first;
    await client.getMessage("2");
    expect(service.seen.map(({ method }) => method)).toEqual(["GET", "GET"]);
  });
});
