import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { until } from "../../../harness/until.ts";
import { freePort } from "../../../setup/free-port.ts";
import { startRaw } from "../../url-destination/downstream.ts";
import { selfSigned } from "../../url-destination/self-signed.ts";
import { failureOf, noRetry, openClient } from "./open-client.ts";
import { bytesOf, jsonAnswer, startScripted } from "./scripted-service.ts";

const message = '{"id":"1","wamid":"wamid.A","status":"sent","conversationId":"2"}';
const ok = jsonAnswer(200, message);
const body = { to: "+5491155550000", text: "hola" };

describe("an answer that is not what the document says is malformed, and may stand for something done:", () => {
  test.each([
    ["broken JSON", jsonAnswer(201, '{"id":"1",'), "the body is not JSON"],
    ["no body", jsonAnswer(201, ""), "the body is empty"],
    ["no content", bytesOf("HTTP/1.1 204 No Content"), "the body is empty"],
    ["not UTF-8", bytesOf("HTTP/1.1 201 Created", Buffer.from('{"id":"\xff"}', "latin1")), "the body is not UTF-8"],
    ["HTML", bytesOf("HTTP/1.1 200 OK\ncontent-type: text/html", "<p>Entrá a la red"), "the body is not JSON"],
    ["a field of another type", jsonAnswer(201, '{"id":1,"wamid":"w","status":"pending","conversationId":"c"}'), "id: "],
    ["a field too few", jsonAnswer(201, '{"id":"1","status":"pending","conversationId":"c"}'), "wamid: "],
    ["another shape", jsonAnswer(201, "[]"), "the body: "],
    [
      "compressed unasked",
      bytesOf("HTTP/1.1 201 Created\ncontent-encoding: gzip", Buffer.from([0x1f, 0x8b, 8, 0])),
      "the body is not UTF-8",
    ],
  ])("%s", async (_name, bytes, problem) => {
    const service = await startScripted(() => bytes);
    const { client, admission } = openClient(service.baseUrl);
    const error = await failureOf(client.sendMessage(body));
    expect(error).toMatchObject({ kind: "malformed", outcome: "unknown", text: null });
    expect(error.failure).toMatchObject({ problem: expect.stringContaining(problem) });
    expect(service.seen).toHaveLength(1);
    expect(admission.settled).toEqual([[{ type: "unknown" }]]);
  });

  test("an error in another shape; that nothing was done is told by its status", async () => {
    for (const status of [400, 401, 402, 404, 409, 429]) {
      for (const text of ["<h1>nginx</h1>", "", "{}", '{"error":{"message":"not a list"}}', '{"error":"x","cause":{"type":"novel"}}']) {
        const service = await startScripted(() => jsonAnswer(status, text));
        const { client } = openClient(service.baseUrl);
        expect(await failureOf(client.sendMessage(body))).toMatchObject({ kind: "malformed", status, outcome: "not-done" });
        expect(service.seen).toHaveLength(1);
      }
    }
  });

  test("the limits are told of a 401 and a 429 all the same", async () => {
    const answers = [
      bytesOf("HTTP/1.1 401 Unauthorized"),
      bytesOf("HTTP/1.1 429 Too Many\nRetry-After: 30", "<p>"),
      bytesOf("HTTP/1.1 429 Too Many", "<p>"),
    ];
    const service = await startScripted((_request, number) => answers[number - 1]);
    const { client, admission } = openClient(service.baseUrl);
    for (const _ of answers) await failureOf(client.me());
    expect(admission.settled.flat()).toEqual([
      { type: "unauthenticated" },
      { type: "rate-limited", cap: null, retryAfterMs: 30_000, limit: null },
      { type: "rate-limited", cap: null, retryAfterMs: null, limit: null },
    ]);
  });

  test("longer than allowed: it is not read to its end", async () => {
    const service = await startScripted((request, _number, socket) => {
      if (request.path.endsWith("/me")) return ok;
      socket.write("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
      const flood = () => {
        while (!socket.destroyed && socket.write(`3e8\r\n${"x".repeat(1000)}\r\n`));
      };
      socket.on("drain", flood);
      flood();
      return undefined;
    });
    const { client } = openClient(service.baseUrl, { maxBodyBytes: 50_000 });
    const error = await failureOf(client.getMessage("1"));
    expect(error).toMatchObject({ kind: "malformed", status: 200, outcome: "unknown" });
    expect(error.message).toContain("longer than 50000 bytes");
    await until("the flooding connection to be closed", () => service.open.size === 0);
    expect(await client.me()).toEqual(JSON.parse(message));
  });

  test("just as long as allowed", async () => {
    const service = await startScripted(() => ok);
    const { client } = openClient(service.baseUrl, { maxBodyBytes: message.length });
    expect(await client.getMessage("1")).toEqual(JSON.parse(message));
  });
});

test("redirects are not followed: the key goes to nobody else", async () => {
  const elsewhere = await startScripted(() => ok);
  for (const status of [301, 302, 303, 307, 308]) {
    const service = await startScripted(() => bytesOf(`HTTP/1.1 ${status} Moved\nlocation: ${elsewhere.baseUrl}/api/v1/messages`));
    const { client } = openClient(service.baseUrl);
    expect(await failureOf(client.sendMessage(body))).toMatchObject({ kind: "undocumented", status, outcome: "unknown" });
    expect(service.seen).toHaveLength(1);
  }
  expect(elsewhere.accepted).toBe(0);
});

test("a 103 before the answer is not the answer", async () => {
  const service = await startScripted(() => Buffer.concat([Buffer.from("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"), ok]));
  expect(await openClient(service.baseUrl).client.getMessage("1")).toEqual(JSON.parse(message));
});

describe("no whole answer, and the request may have left: unknown", () => {
  test.each([
    ["closed without an answer", ""],
    ["half of the head", "HTTP/1.1 201 Cre"],
    ["half of the body", `HTTP/1.1 201 Created\r\ncontent-length: ${message.length}\r\n\r\n${message.slice(0, 20)}`],
    ["half of the chunks", 'HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"id"\r\n'],
    ["not HTTP", "SSH-2.0-OpenSSH_9.9\r\n\r\n"],
  ])("%s", async (_name, text) => {
    for (const ending of ["end", "resetAndDestroy"] as const) {
      const service = await startScripted((_request, _number, socket) => {
        if (text === "") socket[ending]();
        else socket.write(text, () => socket[ending]());
        return undefined;
      });
      const { client, admission } = openClient(service.baseUrl, { retry: noRetry });
      const error = await failureOf(client.sendMessage(body));
      expect(error).toMatchObject({ kind: "network", status: null, text: null, outcome: "unknown" });
      expect(error.failure).toEqual({ kind: "network", code: expect.stringMatching(/^[A-Za-z_]+$/) });
      expect(admission.settled).toEqual([[{ type: "unknown" }]]);
    }
  });

  test("silence until the deadline", async () => {
    const service = await startScripted(() => undefined);
    const { client, clock } = openClient(service.baseUrl);
    const failing = failureOf(client.sendMessage(body));
    await until("the request to arrive", () => service.seen.length === 1);
    clock.expire();
    const error = await failing;
    expect(error).toMatchObject({ kind: "timeout", outcome: "unknown", failure: { kind: "timeout", timeoutMs: 10_000 } });
    await until("the silent connection to be closed", () => service.open.size === 0);
  });

  test.each([
    ["a body that drips for ever", "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n", "1\r\nx\r\n"],
    ["headers that drip for ever", "HTTP/1.1 201 Created\r\n", "x: y\r\n"],
    ["a body without end", "HTTP/1.1 201 Created\r\n\r\n{", ""],
  ])("%s is cut off at the deadline", async (_name, head, drop) => {
    const stopped = { is: false };
    let drops = 0;
    const service = await startScripted((_request, _number, socket) => {
      socket.write(head);
      void (async () => {
        while (!stopped.is && !socket.destroyed) {
          if (drops++ < 500) socket.write(drop);
          await turn();
        }
      })();
      return undefined;
    });
    const { client, clock } = openClient(service.baseUrl, { retry: noRetry });
    const failing = failureOf(client.sendMessage(body));
    await until("the answer to drip", () => drops > 20);
    clock.expire();
    expect(await failing).toMatchObject({ kind: "timeout", outcome: "unknown" });
    await until("the connection to be closed", () => service.open.size === 0);
    stopped.is = true;
  });
});

describe("no connection came about: surely nothing was done", () => {
  test("nobody listens", async () => {
    const { client, admission } = openClient(`http://127.0.0.1:${await freePort()}`, { retry: noRetry });
    const error = await failureOf(client.sendMessage(body));
    expect(error).toMatchObject({ kind: "network", outcome: "not-done", failure: { code: "ECONNREFUSED" } });
    expect(admission.settled).toEqual([[{ type: "not-sent" }]]);
  });

  test("no such name, asked of no name server", async () => {
    const { client, admission } = openClient("http://.invalid./", { retry: noRetry });
    const error = await failureOf(client.sendMessage(body));
    expect(admission.settled).toEqual([[{ type: "not-sent" }]]);
    expect(error).toMatchObject({ kind: "network", outcome: "not-done" });
    expect(["ENOTFOUND", "EAI_AGAIN"]).toContain((error.failure as { code: string }).code);
  });

  test("a certificate that nobody vouches for", async () => {
    const { createServer } = await import("node:https");
    const { listen } = await import("../../url-destination/downstream.ts");
    let requests = 0;
    const offered: string[][] = [];
    const ALPNCallback = ({ protocols }: { protocols: string[] }) => {
      offered.push(protocols);
      return "http/1.1";
    };
    const server = createServer({ ...selfSigned(), ALPNCallback }, (_request, response) => {
      requests += 1;
      response.end();
    });
    server.on("tlsClientError", () => {});
    const { port } = await listen(server, "127.0.0.1");
    const { client } = openClient(`https://127.0.0.1:${port}`, { retry: noRetry });
    const error = await failureOf(client.sendMessage(body));
    expect(error).toMatchObject({ kind: "network", outcome: "not-done", failure: { code: "DEPTH_ZERO_SELF_SIGNED_CERT" } });
    expect(requests).toBe(0);
    // One request per connection: HTTP/2 is not even offered.
    expect(offered).toEqual([["http/1.1"]]);
  });

  test("a TLS handshake that hangs until the deadline, and a send that waits for that connection", async () => {
    const downstream = await startRaw(() => {});
    const { client, clock } = openClient(`https://127.0.0.1:${downstream.port}`, { retry: noRetry, connections: 1 });
    const failing = [failureOf(client.sendMessage(body)), failureOf(client.sendMessage(body))];
    await until("the connection", () => downstream.accepted === 1 && clock.deadlines() === 2);
    clock.expire();
    for (const error of await Promise.all(failing)) expect(error).toMatchObject({ kind: "timeout", outcome: "not-done" });
    for (const socket of downstream.open) socket.destroy();
  });

  test("a send that waited for a connection until its deadline is not sent afterwards", async () => {
    let release = () => {};
    const service = await startScripted((_request, number, socket) => {
      if (number > 1) return ok;
      release = () => socket.write(ok);
      return undefined;
    });
    const { client, clock } = openClient(service.baseUrl, { retry: noRetry, connections: 1 });
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
