import { createHmac } from "node:crypto";
import { once } from "node:events";
import net from "node:net";
import { webhookSecret } from "../../harness/relay-settings.ts";
import { longestWaitMs, until } from "../../harness/until.ts";

export interface RawAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The body, parsed, when it is JSON. */
  readonly json: {
    readonly status?: string;
    readonly error?: string;
    readonly code?: string;
  } | null;
}

/** A TCP connection to the relay, for what no HTTP client would send. */
export interface RawConnection {
  readonly socket: net.Socket;
  /** Resolves when the bytes were handed to the system; false when the other end has gone. */
  write(bytes: string | Buffer): Promise<boolean>;
  /** The next whole answer. Rejects when the connection ends, or `withinMs` passes, without one. */
  answer(withinMs?: number): Promise<RawAnswer>;
  /**
   * Resolves with what came and was not read as an answer, once the relay has closed the
   * connection.
   */
  closed(withinMs?: number): Promise<string>;
}

export async function connect(port: number): Promise<RawConnection> {
  // Half-open allowed, so that a test can end its own side and still read.
  const socket = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  let received = Buffer.alloc(0);
  let over = false;
  socket.on("data", (chunk) => {
    received = Buffer.concat([received, chunk]);
  });
  for (const end of ["end", "close"]) socket.on(end, () => (over = true));
  socket.on("error", () => {});
  await once(socket, "connect");

  function take(): RawAnswer | null {
    const headEnd = received.indexOf("\r\n\r\n");
    if (headEnd === -1) return null;
    const [first = "", ...lines] = received.subarray(0, headEnd).toString("latin1").split("\r\n");
    const headers = Object.fromEntries(
      lines.map((line) => [
        line.slice(0, line.indexOf(":")).toLowerCase(),
        line.slice(line.indexOf(":") + 1).trim(),
      ]),
    );
    const length = Number(headers["content-length"] ?? 0);
    if (received.length < headEnd + 4 + length) return null;
    const body = received.subarray(headEnd + 4, headEnd + 4 + length).toString("utf8");
    received = received.subarray(headEnd + 4 + length);
    return {
      status: Number(first.split(" ")[1]),
      headers,
      body,
      json: headers["content-type"]?.startsWith("application/json") ? JSON.parse(body) : null,
    };
  }

  return {
    socket,
    write: (bytes) =>
      new Promise((resolve) =>
        socket.write(bytes, (error) => resolve(error === null || error === undefined)),
      ),
    async answer(withinMs = longestWaitMs) {
      const answer = await until(
        "an answer",
        () => {
          const taken = take();
          if (taken === null && over)
            throw new Error(
              `the connection ended without an answer: ${JSON.stringify(received.toString("latin1"))}`,
            );
          return taken;
        },
        withinMs,
      );
      return answer;
    },
    async closed(withinMs = longestWaitMs) {
      await until("the relay closes the connection", () => over, withinMs);
      return received.toString("latin1");
    },
  };
}

/**
 * A connection that has had an answer. A new one is closed after `server.requestTimeout` without a
 * byte, and so before the first byte of a test process that pauses for so long.
 */
export async function connectAnswered(port: number): Promise<RawConnection> {
  const page = requestBytes({ method: "GET", target: "/healthz", lines: ["host: relay.test"] });
  return until("a connection has an answer", async () => {
    const connection = await connect(port);
    await connection.write(page);
    const answer = await connection.answer().catch(() => null);
    if (answer?.status === 200) return connection;
    connection.socket.destroy();
    return null;
  });
}

export function signature(body: string | Buffer, secret = webhookSecret): string {
  return `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
}

export interface RequestParts {
  readonly method?: string;
  readonly target?: string;
  readonly version?: string;
  readonly body?: string | Buffer;
  /** Raw header lines, instead of host, content-length, content type and signature. */
  readonly lines?: readonly string[];
  /** Raw header lines beside those. */
  readonly more?: readonly string[];
  readonly secret?: string;
}

/** The bytes of one request: rightly signed, unless the parts say otherwise. */
export function requestBytes(parts: RequestParts = {}): Buffer {
  const {
    method = "POST",
    target = "/webhooks/main",
    version = "1.1",
    body = "",
    more = [],
    secret = webhookSecret,
  } = parts;
  const bytes = Buffer.from(body);
  const lines = parts.lines ?? [
    "host: relay.test",
    `content-length: ${bytes.length}`,
    "content-type: application/json",
    `x-acme-signature: ${signature(bytes, secret)}`,
  ];
  return Buffer.concat([
    Buffer.from(
      `${[`${method} ${target} HTTP/${version}`, ...lines, ...more].join("\r\n")}\r\n\r\n`,
      "latin1",
    ),
    bytes,
  ]);
}

/** Sends one request on a connection of its own and gives the answer. */
export async function ask(port: number, parts: RequestParts | Buffer): Promise<RawAnswer> {
  const connection = await connect(port);
  try {
    void connection.write(Buffer.isBuffer(parts) ? parts : requestBytes(parts));
    return await connection.answer();
  } finally {
    connection.socket.destroy();
  }
}
