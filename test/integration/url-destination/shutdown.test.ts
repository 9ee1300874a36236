import { expect, test, vi } from "vitest";
import { longestWaitMs } from "../../harness/until.ts";
import { attempt, destinationTo, told } from "./attempt.ts";
import { allClosed, startHttp } from "./downstream.ts";

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
