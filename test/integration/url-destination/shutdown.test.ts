import { getEventListeners } from "node:events";
import { expect, test, vi } from "vitest";
import { longestWaitMs } from "../../harness/until.ts";
import { attempt, destinationTo, told } from "./attempt.ts";
import { allClosed, startHttp } from "./downstream.ts";

test("ends an attempt as aborted by its signal at once, and closes its connection", async () => {
  const downstream = await startHttp(() => {});
  const shutdown = new AbortController();
  const sending = attempt(destinationTo(downstream.url), {}, shutdown.signal);
  await vi.waitFor(() => expect(downstream.seen).toHaveLength(1), longestWaitMs);
  shutdown.abort();
  expect(told(await sending)).toMatch(/^failed aborted: /);
  await allClosed(downstream);
});

test("sends nothing when its signal is aborted already", async () => {
  const downstream = await startHttp((_request, response) => response.end());
  const destination = destinationTo(downstream.url);
  expect(told(await attempt(destination, {}, AbortSignal.abort()))).toMatch(/^failed aborted: /);
  expect(told(await attempt(destination))).toBe("200");
  expect(downstream.seen).toHaveLength(1);
});

test("close ends attempts in flight, queued attempts and idle connections", async () => {
  const downstream = await startHttp((request, response) => {
    if (request.headers["x-wamid-relay-event"] === "quick") response.end();
  });
  const destination = destinationTo(downstream.url, { concurrency: 2 });
  await Promise.all([attempt(destination, { event: "quick" }), attempt(destination, { event: "quick" })]);
  const sending = [1, 2, 3, 4].map(() => attempt(destination));
  await vi.waitFor(() => expect(downstream.seen).toHaveLength(4), longestWaitMs);
  await destination.close();
  for (const outcome of await Promise.all(sending)) expect(told(outcome)).toMatch(/^failed aborted: /);
  await allClosed(downstream);
  expect(told(await attempt(destination))).toMatch(/^failed aborted: /);
  expect(downstream.seen).toHaveLength(4);
  expect(downstream.accepted).toBe(2);
});

test("leaves no listeners on the signal", async () => {
  const downstream = await startHttp((_request, response) => response.end());
  const destination = destinationTo(downstream.url);
  const { signal } = new AbortController();
  for (let n = 0; n < 20; n += 1) await attempt(destination, {}, signal);
  expect(getEventListeners(signal, "abort")).toHaveLength(0);
});
