import { describe, expect, test } from "vitest";
import { expectAlive, expectError, freshEvent, relayOfFile } from "./alive.ts";
import { ask, connect, type RequestParts, requestBytes, signature } from "./raw-client.ts";

const relay = await relayOfFile({ server: { badSignatureLimit: 100_000, bodyLimit: "4KiB" } });

const envelope = () => JSON.stringify(freshEvent());
/** An envelope of exactly so many bytes. */
const sized = (bytes: number) => {
  const empty = freshEvent({ text: "" });
  return JSON.stringify({
    ...empty,
    data: { text: "x".repeat(bytes - JSON.stringify(empty).length) },
  });
};
const chunked = (body: string, size: number) =>
  (body.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [])
    .map((part) => `${part.length.toString(16)}\r\n${part}\r\n`)
    .join("");
const chunkedHead = (body: string, more: readonly string[] = []) =>
  requestBytes({
    lines: [
      "host: relay.test",
      "transfer-encoding: chunked",
      `x-acme-signature: ${signature(body)}`,
      ...more,
    ],
  });
const inChunks = (body: string, size: number) =>
  Buffer.concat([chunkedHead(body), Buffer.from(`${chunked(body, size)}0\r\n\r\n`)]);
const accepted = { status: 200, json: { status: "accepted" } };

describe("the size of a body", () => {
  test("accepts a body at the limit, and rejects one byte more with 413, declared or not", async () => {
    const [most, more] = [sized(4096), sized(4097)];
    expect(await ask(relay.port, { body: most })).toMatchObject(accepted);
    for (const size of [1000, 1])
      expect(await ask(relay.port, inChunks(sized(4096), size))).toMatchObject(accepted);
    expectError(await ask(relay.port, { body: more }), "too_large");
    expectError(await ask(relay.port, inChunks(more, 1000)), "too_large");
    await expectAlive(relay);
  });

  test.each([
    ["kept alive", []],
    ["to be closed after", ["connection: close"]],
  ])(
    "10 MB declared, %s: the sender can read 413 while it writes, and can write all of it",
    async (_name, more) => {
      const connection = await connect(relay.port);
      const size = 10_000_000;
      const head = requestBytes({
        lines: ["host: relay.test", `content-length: ${size}`, ...more],
      });
      await connection.write(head);
      expectError(await connection.answer(), "too_large");
      for (let sent = 0; sent < size; sent += 1_000_000)
        expect(await connection.write(Buffer.alloc(1_000_000, 120))).toBe(true);
      if (more.length > 0) expect(await connection.closed()).toBe("");
      else {
        await connection.write(requestBytes({ body: envelope() }));
        expect(await connection.answer()).toMatchObject(accepted);
      }
      connection.socket.destroy();
      await expectAlive(relay);
    },
  );

  test.each([
    ["kept alive", []],
    ["to be closed after", ["connection: close"]],
  ])(
    "10 MB in chunks, %s: 413 in the middle, and the connection closes after the body",
    async (_name, more) => {
      const connection = await connect(relay.port);
      const piece = Buffer.from(`${(100_000).toString(16)}\r\n${"x".repeat(100_000)}\r\n`);
      await connection.write(chunkedHead("", more));
      await connection.write(piece);
      const answer = await connection.answer();
      expectError(answer, "too_large");
      expect(answer.headers["connection"]?.toLowerCase()).toBe("close");
      for (let sent = 0; sent < 99; sent += 1) expect(await connection.write(piece)).toBe(true);
      await connection.write("0\r\n\r\n");
      expect(await connection.closed()).toBe("");
      connection.socket.destroy();
      await expectAlive(relay);
    },
  );
});

describe("the signature header", () => {
  const body = envelope();
  const right = `x-acme-signature: ${signature(body)}`;
  const lines = ["host: relay.test", `content-length: ${body.length}`];
  const refused: readonly (readonly [name: string, more: readonly string[]])[] = [
    ["none", []],
    ["twice, both right", [right, right]],
    ["twice, one right", [right, `x-acme-signature: ${signature("other")}`]],
    ["under another name", [right.replace("acme", "other")]],
    ["10 KB of it", [`x-acme-signature: ${"a".repeat(10_000)}`]],
  ];
  test.each(refused)("%s: 401", async (_name, more) => {
    expectError(await ask(relay.port, { body, lines: [...lines, ...more] }), "bad_signature");
  });

  test("100 KB of headers: 431, and the connection closes", async () => {
    expectError(
      await ask(relay.port, {
        body,
        lines: [...lines, right],
        more: [`x-filler: ${"a".repeat(100_000)}`],
      }),
      "headers_too_large",
    );
    const connection = await connect(relay.port);
    await connection.write(
      requestBytes({ body, lines: [...lines, right], more: [`x-filler: ${"a".repeat(100_000)}`] }),
    );
    await connection.closed();
    await expectAlive(relay);
  });

  test("then accepts a request with the right signature", async () => {
    expect(await ask(relay.port, { body, lines: [...lines, right] })).toMatchObject(accepted);
    expect(
      await ask(relay.port, {
        body,
        lines: [...lines, right.toUpperCase().replace("SHA256=", "sha256=")],
      }),
    ).toMatchObject({
      status: 200,
      json: { status: "duplicate" },
    });
  });
});

describe("the path", () => {
  test("accepts a query of any kind", async () => {
    for (const query of ["?x", "?x=1&a=/../b&c=%zz"])
      expect(
        await ask(relay.port, { target: `/webhooks/main${query}`, body: envelope() }),
      ).toMatchObject(accepted);
  });

  const odd = ["/", "/more", "%00", "%2f", "%3Fx", ";x"].map((end) => `main${end}`);
  const missing = [
    ...odd,
    "",
    "Main",
    "%6dain",
    "../webhooks/main",
    "./main",
    "/main",
    "__proto__",
    "constructor",
    "hasOwnProperty",
  ];
  test.each([
    ...missing.map((end) => `/webhooks/${end}`),
    ...[
      "*",
      "/webhooks",
      "/WEBHOOKS/main",
      "//webhooks/main",
      "//relay.test/webhooks/main",
      "http://relay.test/webhooks/main",
    ],
    `/webhooks/${"a".repeat(10_000)}`,
  ])("%s: 404", async (target) => {
    expectError(await ask(relay.port, { target, body: envelope() }), "not_found");
  });

  test("/, which leads a browser to the console: 405", async () => {
    expectError(await ask(relay.port, { target: "/", body: envelope() }), "method_not_allowed");
  });

  test.each(["/v1/events/%zz", "/v1/%", `/v1/events/${"a".repeat(10_000)}`])(
    "%s: 400",
    async (target) => {
      expectError(
        await ask(relay.port, { target, method: "GET", lines: ["host: relay.test"] }),
        "bad_request",
      );
    },
  );

  test("20 KB of it: 431", async () => {
    expectError(
      await ask(relay.port, { target: `/webhooks/main?${"a".repeat(20_000)}` }),
      "headers_too_large",
    );
    await expectAlive(relay);
  });
});

describe("the method", () => {
  test.each(["GET", "OPTIONS", "PROPFIND"])("%s: 405 with the allowed method", async (method) => {
    const answer = await ask(relay.port, { method, body: method === "GET" ? "" : envelope() });
    expectError(answer, "method_not_allowed");
    expect(answer.headers["allow"]).toBe("POST");
  });

  test("HEAD: the same without a body", async () => {
    const connection = await connect(relay.port);
    await connection.write(
      requestBytes({ method: "HEAD", lines: ["host: relay.test", "connection: close"] }),
    );
    expect(await connection.closed()).toMatch(/^HTTP\/1\.1 405 /);
  });

  test.each(["post", "PO ST", ""])(
    "%j: 400 or no answer, and the relay keeps running",
    async (method) => {
      const connection = await connect(relay.port);
      await connection.write(requestBytes({ method, body: envelope() }));
      expect(await connection.closed()).toMatch(/^(HTTP\/1\.1 400 |$)/);
      await expectAlive(relay);
    },
  );
});

describe("the shape of a request", () => {
  const head = (body: string, ...lines: string[]): RequestParts => ({
    body,
    lines: ["host: relay.test", `x-acme-signature: ${signature(body)}`, ...lines],
  });
  const body = "{}";

  const malformed: readonly (readonly [name: string, request: Buffer])[] = [
    [
      "length and chunks at once",
      requestBytes(head(body, "content-length: 2", "transfer-encoding: chunked")),
    ],
    ["two lengths", requestBytes(head(body, "content-length: 2", "content-length: 2"))],
    ["a bare line feed", requestBytes(head(body, "content-length: 2\nx-a: 1"))],
    [
      "chunks that are not the last coding",
      requestBytes(head(body, "transfer-encoding: chunked, identity")),
    ],
    [
      "a chunk longer than it says",
      Buffer.concat([
        requestBytes(head("", "transfer-encoding: chunked")),
        Buffer.from("1\r\n{}\r\n0\r\n\r\n"),
      ]),
    ],
    ["no host", requestBytes({ body, lines: ["content-length: 2"] })],
    [
      "two hosts",
      requestBytes({ body, lines: ["host: relay.test", "content-length: 2", "Host: other.test"] }),
    ],
    [
      "two hosts, for a page",
      requestBytes({
        target: "/healthz",
        method: "GET",
        lines: ["host: relay.test", "HOST: relay.test"],
      }),
    ],
    ["CONNECT", requestBytes({ method: "CONNECT", target: "relay.test:443", body: "" })],
    ["TLS", Buffer.from("16030100a5010000a10303", "hex")],
  ];
  test.each(malformed)("%s: 400, and the connection closes", async (_name, request) => {
    const connection = await connect(relay.port);
    await connection.write(request);
    const text = await connection.closed();
    expect(text).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/);
    expect(JSON.parse(text.slice(text.indexOf("\r\n\r\n") + 4))).toEqual({
      error: expect.any(String),
      code: "bad_request",
    });
    // No second answer: nothing behind the first was taken for a request of its own.
    expect(text.match(/HTTP\/1\.1 /g)?.length).toBe(1);
    await expectAlive(relay);
  });

  test("treats a request smuggled into a body as body", async () => {
    const hidden = requestBytes({ body: envelope() }).toString("latin1");
    const connection = await connect(relay.port);
    await connection.write(
      requestBytes({ body: hidden, secret: "wrong", more: ["connection: close"] }),
    );
    const text = await connection.closed();
    expect(text.match(/HTTP\/1\.1 (\d+)/g)).toEqual(["HTTP/1.1 401"]);
  });

  test("accepts chunks with extensions and trailers, and verifies no signature in a trailer", async () => {
    const good = envelope();
    const chunks = `${good.length.toString(16)};a=b;c="d"\r\n${good}\r\n0\r\n`;
    expect(
      await ask(
        relay.port,
        Buffer.concat([
          chunkedHead(good, ["trailer: x-sum"]),
          Buffer.from(`${chunks}x-sum: 1\r\n\r\n`),
        ]),
      ),
    ).toMatchObject(accepted);
    const unsigned = requestBytes({
      lines: ["host: relay.test", "transfer-encoding: chunked", "trailer: x-acme-signature"],
    });
    expectError(
      await ask(
        relay.port,
        Buffer.concat([
          unsigned,
          Buffer.from(`${chunks}x-acme-signature: ${signature(good)}\r\n\r\n`),
        ]),
      ),
      "bad_signature",
    );
  });

  test("Expect: 100-continue: 100, then the answer", async () => {
    const connection = await connect(relay.port);
    const good = envelope();
    const whole = requestBytes({ body: good, more: ["expect: 100-continue"] });
    await connection.write(whole.subarray(0, whole.length - good.length));
    expect((await connection.answer()).status).toBe(100);
    await connection.write(good);
    expect(await connection.answer()).toMatchObject(accepted);
    connection.socket.destroy();
  });

  const authorized = [
    "host: relay.test",
    "authorization: Bearer harness-control-token",
    "content-type: application/json",
  ];
  const expecting = "expect: 100-continue";
  test.each([
    [
      "an unknown source",
      { target: "/webhooks/nobody", lines: ["host: relay.test", "content-length: 20", expecting] },
      "not_found",
    ],
    [
      "a length over the limit",
      { lines: ["host: relay.test", "content-length: 4097", expecting] },
      "too_large",
    ],
    [
      "no token",
      { target: "/v1/replay", lines: ["host: relay.test", "content-length: 20", expecting] },
      "unauthorized",
    ],
    [
      "9 MiB under /v1",
      {
        target: "/v1/replay",
        lines: [...authorized, `content-length: ${9 * 1024 ** 2}`, expecting],
      },
      "too_large",
    ],
  ] as const)(
    "Expect: 100-continue with %s: the final answer at once, and no 100",
    async (_name, parts, code) => {
      const answer = await ask(relay.port, parts);
      expectError(answer, code);
      // A sender may now send the body or not: the next request could not be told from it.
      expect(answer.headers["connection"]?.toLowerCase()).toBe("close");
      await expectAlive(relay);
    },
  );

  test("Expect: 100-continue under /v1: 100, then the answer", async () => {
    const connection = await connect(relay.port);
    await connection.write(
      requestBytes({
        target: "/v1/replay",
        lines: [...authorized, "content-length: 15", expecting],
      }),
    );
    expect((await connection.answer()).status).toBe(100);
    await connection.write('{"dryRun":true}');
    expect(await connection.answer()).toMatchObject({ status: 200, json: { matching: 0 } });
    connection.socket.destroy();
  });

  test("Expect: something else: 417", async () => {
    expectError(
      await ask(relay.port, { body: envelope(), more: ["expect: the-unexpected"] }),
      "expectation_failed",
    );
    await expectAlive(relay);
  });

  test("answers HTTP/1.0 and closes the connection", async () => {
    const connection = await connect(relay.port);
    const good = envelope();
    await connection.write(
      requestBytes({
        version: "1.0",
        body: good,
        lines: [`content-length: ${good.length}`, `x-acme-signature: ${signature(good)}`],
      }),
    );
    expect(await connection.answer()).toMatchObject(accepted);
    expect(await connection.closed()).toBe("");
  });

  test("answers an upgrade request like any other", async () => {
    const more = ["connection: upgrade", "upgrade: websocket"];
    expect(await ask(relay.port, { body: envelope(), more })).toMatchObject({ status: 200 });
    await expectAlive(relay);
  });

  test("answers requests of one packet in order, good and bad", async () => {
    const connection = await connect(relay.port);
    const bodies = Array.from({ length: 5 }, envelope);
    const requests = bodies.flatMap((one) => [
      requestBytes({ body: one }),
      requestBytes({ body: one, secret: "wrong" }),
      requestBytes({ body: one }),
      requestBytes({ target: "/webhooks/nobody", body: one }),
      requestBytes({ body: "not json" }),
      requestBytes({ target: "/healthz", method: "GET", lines: ["host: relay.test"] }),
    ]);
    await connection.write(Buffer.concat(requests));
    for (const _ of bodies) {
      expect((await connection.answer()).json).toEqual({ status: "accepted" });
      expectError(await connection.answer(), "bad_signature");
      expect((await connection.answer()).json).toEqual({ status: "duplicate" });
      expectError(await connection.answer(), "not_found");
      expect((await connection.answer()).json?.status).toBe("quarantined");
      expect((await connection.answer()).json?.status).toBe("ok");
    }
    connection.socket.destroy();
  });

  test("answers a request that follows a rejected one", async () => {
    const connection = await connect(relay.port);
    await connection.write(
      Buffer.concat([requestBytes({ body: sized(9000) }), requestBytes({ body: envelope() })]),
    );
    expectError(await connection.answer(), "too_large");
    expect(await connection.answer()).toMatchObject(accepted);
    connection.socket.destroy();
  });
});

describe("the other paths", () => {
  const lines = [
    "host: relay.test",
    "authorization: Bearer harness-control-token",
    "content-type: application/json",
  ];
  const nineMiB = 9 * 1024 ** 2;
  const close = "connection: close";
  test.each([
    ["/v1/replay", { target: "/v1/replay", lines }, "too_large"],
    [
      "/v1/replay without a token, to be closed after",
      { target: "/v1/replay", lines: ["host: relay.test", close] },
      "unauthorized",
    ],
    [
      "/v1/nothing, to be closed after",
      { target: "/v1/nothing", lines: [...lines, close] },
      "not_found",
    ],
    [
      "an unknown source, to be closed after",
      { target: "/webhooks/nobody", lines: [...lines, close] },
      "not_found",
    ],
    ["a page without a host", { target: "/v1/replay", lines: lines.slice(1) }, "bad_request"],
  ] as const)(
    "9 MiB to %s: a sender that writes all of it first can read the answer",
    async (_name, parts, code) => {
      for (const isChunked of [false, true]) {
        const connection = await connect(relay.port);
        const length = isChunked ? "transfer-encoding: chunked" : `content-length: ${nineMiB}`;
        await connection.write(requestBytes({ ...parts, lines: [...parts.lines, length] }));
        for (let sent = 0; sent < nineMiB; sent += 2 ** 20) {
          const piece = Buffer.alloc(2 ** 20, "[");
          expect(
            await connection.write(
              isChunked
                ? Buffer.concat([Buffer.from("100000\r\n"), piece, Buffer.from("\r\n")])
                : piece,
            ),
          ).toBe(true);
        }
        if (isChunked) await connection.write("0\r\n\r\n");
        expectError(await connection.answer(), code);
        expect(await connection.closed()).toBe("");
      }
      await expectAlive(relay);
    },
  );

  test.each([
    ["/webhooks/main", { target: "/webhooks/main", lines }, "too_large"],
    ["/v1/nothing", { target: "/v1/nothing", lines }, "not_found"],
  ] as const)(
    "1 GB to %s: the answer says that the connection ends, and not all of it is read",
    async (_name, parts, code) => {
      const connection = await connect(relay.port);
      const size = 10 ** 9;
      await connection.write(
        requestBytes({ ...parts, lines: [...parts.lines, `content-length: ${size}`] }),
      );
      const answer = await connection.answer();
      expectError(answer, code);
      expect(answer.headers["connection"]?.toLowerCase()).toBe("close");
      const piece = Buffer.alloc(2 ** 20);
      let taken = 0;
      while (taken < size && (await connection.write(piece))) taken += piece.length;
      // 64 MiB, and what the buffers of two sockets hold.
      expect(taken).toBeLessThan(size / 2);
      await expectAlive(relay);
    },
  );

  test("rejects a body that is not JSON, with 400, and another type with 415", async () => {
    for (const body of ["{", "[".repeat(100_000), "\ufeff{}"]) {
      expectError(
        await ask(relay.port, {
          target: "/v1/replay",
          body,
          lines: [...lines, `content-length: ${Buffer.byteLength(body)}`],
        }),
        "bad_request",
      );
    }
    const xml = [
      "host: relay.test",
      "authorization: Bearer harness-control-token",
      "content-type: text/xml",
      "content-length: 3",
    ];
    expectError(
      await ask(relay.port, { target: "/v1/replay", body: "<a>", lines: xml }),
      "unsupported_media_type",
    );
  });
});
