import type net from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { longestWaitMs } from "../../harness/until.ts";
import { attempt, destinationTo, told } from "./attempt.ts";
import { onRequest, startHttp, startRaw } from "./downstream.ts";

const ok = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

test("reuses one connection in sequence, and at most `concurrency` in parallel", async () => {
  let most = 0;
  const downstream = await startHttp((_request, response) => {
    most = Math.max(most, downstream.open.size);
    setTimeout(() => response.end("ok"), 5);
  });
  const destination = destinationTo(downstream.url, { concurrency: 3 });
  for (let n = 0; n < 20; n += 1) expect(told(await attempt(destination))).toBe("200");
  expect(downstream.accepted).toBe(1);
  const outcomes = await Promise.all(Array.from({ length: 30 }, () => attempt(destination)));
  expect(outcomes.map(told)).toEqual(Array(30).fill("200"));
  expect(most).toBe(3);
  expect(downstream.accepted).toBe(3);
});

test("gives up a busy connection after a minute, so that a changed address takes effect", async () => {
  let elapsed = 0;
  const steady = performance.now.bind(performance);
  const clock = vi.spyOn(performance, "now").mockImplementation(() => steady() + elapsed);
  onTestFinished(() => clock.mockRestore());
  const downstream = await startHttp((_request, response) => response.end("ok"));
  const destination = destinationTo(downstream.url, { concurrency: 1 });
  for (const [seconds, accepted] of [
    [0, 1],
    [50, 1],
    [20, 1],
    [0, 2],
    [50, 2],
  ] as const) {
    elapsed += seconds * 1000;
    expect(told(await attempt(destination))).toBe("200");
    expect(downstream.accepted).toBe(accepted);
  }
});

test("reopens a connection that was closed while idle, and sends once", async () => {
  const requests: string[] = [];
  const downstream = await startRaw((socket) =>
    onRequest(socket, (text) => void (requests.push(text) && socket.write(ok))),
  );
  const destination = destinationTo(downstream.url);
  expect(told(await attempt(destination))).toBe("200");
  for (const socket of downstream.open) socket.end();
  await vi.waitFor(() => expect(downstream.open.size).toBe(0), longestWaitMs);
  expect(told(await attempt(destination))).toBe("200");
  expect(requests).toHaveLength(2);
  expect(downstream.accepted).toBe(2);
});

test.each<[string, (socket: net.Socket) => void]>([
  ["reset", (socket) => socket.resetAndDestroy()],
  ["closed", (socket) => socket.end()],
])(
  "the keep-alive race: a used connection %s under the request is no failure of the attempt",
  async (_how, breakOff) => {
    const requests: string[] = [];
    const downstream = await startRaw((socket, number) => {
      let onThis = 0;
      onRequest(socket, (text) => {
        onThis += 1;
        requests.push(text);
        if (number === 1 && onThis === 2) breakOff(socket);
        else socket.write(ok);
      });
    });
    const destination = destinationTo(downstream.url);
    expect(told(await attempt(destination))).toBe("200");
    expect(told(await attempt(destination, { attempt: 7 }))).toBe("200");
    expect(downstream.accepted).toBe(2);
    expect(requests).toHaveLength(3);
    // The same delivery, to the last byte: downstream dedupes by its id.
    expect(requests[2]).toBe(requests[1]);
    expect(requests[1]).toContain("webhook-attempt: 7\r\n");
  },
);

test("delivers in one attempt each when all idle connections are stale", async () => {
  let stale = false;
  const downstream = await startRaw((socket, number) =>
    onRequest(socket, () => {
      if (stale && number <= 4) socket.resetAndDestroy();
      else setTimeout(() => socket.write(ok), 5);
    }),
  );
  const destination = destinationTo(downstream.url, { concurrency: 4 });
  const four = async () =>
    (await Promise.all([1, 2, 3, 4].map(() => attempt(destination)))).map(told);
  expect(await four()).toEqual(["200", "200", "200", "200"]);
  expect(downstream.accepted).toBe(4);
  stale = true;
  expect(await four()).toEqual(["200", "200", "200", "200"]);
  expect(downstream.accepted).toBe(8);
});

test("sends again only once, and never on a new connection or after an answer began", async () => {
  let requests = 0;
  let fine = true;
  const downstream = await startRaw((socket) =>
    onRequest(socket, () => {
      requests += 1;
      if (fine) socket.write(ok);
      else socket.resetAndDestroy();
    }),
  );
  const destination = destinationTo(downstream.url);
  expect(told(await attempt(destination))).toBe("200");
  fine = false;
  expect(told(await attempt(destination))).toMatch(/^failed reset/);
  expect(requests).toBe(3);
  expect(told(await attempt(destination))).toMatch(/^failed reset/);
  expect(requests).toBe(4);

  let answers = 0;
  const half = await startRaw((socket) =>
    onRequest(socket, () => {
      answers += 1;
      if (answers === 1) socket.write(ok);
      else socket.write("HTTP/1.1 200 OK\r\n", () => socket.resetAndDestroy());
    }),
  );
  const other = destinationTo(half.url);
  expect(told(await attempt(other))).toBe("200");
  expect(told(await attempt(other))).toMatch(/^failed reset/);
  expect(answers).toBe(2);
});

test("does not send once more over a new connection when the route was lost meanwhile", async () => {
  let isHeld = true;
  const requests: string[] = [];
  const downstream = await startRaw((socket) => {
    onRequest(socket, (text) => {
      if (requests.push(text) === 1) socket.write(ok);
      else {
        isHeld = false;
        socket.resetAndDestroy();
      }
    });
  });
  const destination = destinationTo(downstream.url);
  const send = () => attempt(destination, {}, () => isHeld);
  expect(told(await send())).toBe("200");
  expect(told(await send())).toMatch(/^failed aborted/);
  expect(told(await send())).toMatch(/^failed aborted/);
  expect(requests).toHaveLength(2);
  isHeld = true;
  expect(told(await attempt(destination))).toMatch(/^failed reset/);
});
