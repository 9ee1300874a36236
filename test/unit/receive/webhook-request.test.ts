import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { WebhookRequest } from "../../../src/receive/http.ts";
import { longestWaitMs } from "../../harness/until.ts";

interface Taken {
  readonly request: WebhookRequest;
  readonly response: ServerResponse;
  readonly pieces: string[];
  readonly ends: string[];
}

let taken: Taken[] = [];
/** Of bodies whose path is /limited, how many bytes are taken before the rest is given back. */
const limit = 10;

// Without a deadline for idle connections: tests go on with one after a wait.
const server = createServer(
  { IncomingMessage: WebhookRequest, keepAliveTimeout: 0 },
  (request, response) => {
    if (request.url === "/stream") {
      let text = "";
      request.on("data", (piece: Buffer) => {
        text += piece.toString();
      });
      request.on("end", () => response.end(`stream: ${text}`));
      return;
    }
    const one: Taken = { request, response, pieces: [], ends: [] };
    taken.push(one);
    let size = 0;
    request.takeBody({
      piece(piece) {
        one.pieces.push(piece.toString());
        size += piece.length;
        if (request.url !== "/limited" || size <= limit) return;
        request.giveBodyBack();
        request.once("end", () => response.end("too much"));
        request.resume();
      },
      end() {
        one.ends.push("end");
        if (request.url !== "/waits") response.end(`taken: ${one.pieces.join("")}`);
      },
      gone: () => one.ends.push("gone"),
    });
  },
);

beforeAll(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)));
afterAll(() => new Promise((resolve) => server.close(resolve)));
beforeEach(() => {
  taken = [];
});

/** A connection, what has come over it, and how to wait for more. */
async function open(): Promise<{
  socket: Socket;
  answers: () => string[];
  wait: (count: number) => Promise<void>;
}> {
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  let text = "";
  // A connection that breaks fails the wait for its answers.
  socket.on("error", () => {});
  socket.on("data", (data) => {
    text += data.toString();
  });
  await once(socket, "connect");
  const answers = () =>
    [...text.matchAll(/HTTP\/1\.1 200 OK\r\n(?:.+\r\n)*\r\n(.*?)(?=HTTP\/1\.1|$)/g)].map(
      ([, body]) => body as string,
    );
  return {
    socket,
    answers,
    wait: (count) => vi.waitFor(() => expect(answers()).toHaveLength(count), longestWaitMs),
  };
}

const post = (path: string, body: string): string =>
  `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

test("passes a chunked body piece by piece", async () => {
  const { socket, answers, wait } = await open();
  socket.write("POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n");
  await vi.waitFor(() => expect(taken[0]?.pieces).toEqual(["abc"]), longestWaitMs);
  expect(taken[0]?.ends).toEqual([]);
  socket.write("2\r\nde\r\n0\r\n\r\n");
  await wait(1);
  expect(answers()).toEqual(["taken: abcde"]);
  socket.destroy();
});

test("lets the stream read the rest of a body that was given back", async () => {
  const { socket, answers, wait } = await open();
  const large = post("/limited", "x".repeat(30_000));
  socket.write(large.slice(0, 9_000));
  await vi.waitFor(() => expect(taken).toHaveLength(1), longestWaitMs);
  socket.write(large.slice(9_000));
  await wait(1);
  socket.write(post("/", "next"));
  await wait(2);
  expect(answers()).toEqual(["too much", "taken: next"]);
  expect(taken.map(({ ends }) => ends)).toEqual([[], ["end"]]);
  socket.destroy();
});

test("reports once that a sender disconnected within a body", async () => {
  const { socket } = await open();
  socket.write(post("/", "0123456789").slice(0, -4));
  await vi.waitFor(() => expect(taken[0]?.pieces).toEqual(["012345"]), longestWaitMs);
  socket.destroy();
  await vi.waitFor(() => expect(taken[0]?.request.destroyed).toBe(true), longestWaitMs);
  await vi.waitFor(() => expect(taken[0]?.response.destroyed).toBe(true), longestWaitMs);
  expect(taken[0]?.ends).toEqual(["gone"]);
});

test("does not treat a disconnect after the body as an aborted request", async () => {
  const { socket } = await open();
  socket.write(post("/waits", "whole"));
  await vi.waitFor(() => expect(taken[0]?.ends).toEqual(["end"]), longestWaitMs);
  const aborted = vi.fn();
  taken[0]?.request.on("aborted", aborted);
  socket.destroy();
  await vi.waitFor(() => expect(taken[0]?.response.destroyed).toBe(true), longestWaitMs);
  expect(taken[0]?.ends).toEqual(["end"]);
  expect(taken[0]?.request.readableEnded).toBe(true);
  expect(aborted).not.toHaveBeenCalled();
});
