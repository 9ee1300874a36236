import { expect, test, vi } from "vitest";
import { longestWaitMs } from "../../harness/until.ts";
import { attempt, destinationTo, told } from "./attempt.ts";
import { allClosed, startHttp, startRaw } from "./downstream.ts";

test("close ends attempts in flight, queued attempts and idle connections", async () => {
  const downstream = await startHttp((request, response) => {
    if (request.headers["x-wamid-relay-event"] === "quick") response.end();
  });
  const destination = destinationTo(downstream.url, { concurrency: 2 });
  await Promise.all([
    attempt(destination, { event: "quick" }),
    attempt(destination, { event: "quick" }),
  ]);
  const sending = [1, 2, 3, 4].map(() => attempt(destination));
  await vi.waitFor(() => expect(downstream.seen).toHaveLength(4), longestWaitMs);
  await destination.close();
  for (const outcome of await Promise.all(sending))
    expect(told(outcome)).toMatch(/^failed aborted: /);
  await allClosed(downstream);
  expect(told(await attempt(destination))).toMatch(/^failed aborted: /);
  expect(downstream.seen).toHaveLength(4);
  expect(downstream.accepted).toBe(2);
});

test("close ends an attempt whose connection hangs, and closes that too", async () => {
  const hanging = await startRaw((socket) => void socket.resume());
  const destination = destinationTo(`https://127.0.0.1:${hanging.port}/`, { timeout: "5m" });
  const sending = attempt(destination);
  await vi.waitFor(() => expect(hanging.open.size).toBe(1), longestWaitMs);
  await destination.close();
  expect(told(await sending)).toMatch(/^failed aborted: /);
  await allClosed(hanging);
});
