import { expect, test } from "vitest";
import { type ListenPort, listenStream, startOf } from "../../../src/inspect/listen.ts";
import type { ListenPage } from "../../../src/model/endpoints/stream.ts";

/** A store of which only the newest seq is known; nobody wants its events. */
function storeAt(seq: number) {
  const store = { newest: seq, wake: () => {} };
  const port = {
    ends: () => ({ oldest: 1, newest: store.newest, oldestAt: 0 }),
    onStored: (wake: () => void) => {
      store.wake = wake;
      return () => {};
    },
    now: () => 0,
    after: () => () => {},
    retention: () => 0,
    version: "1",
  } as unknown as ListenPort;
  const read = async <T>(after: number, use: (page: ListenPage) => T): Promise<T> =>
    use({ events: [], through: Math.max(after, store.newest), missing: null, atEnd: true });
  const stream = listenStream({
    port,
    read,
    start: { after: seq, reset: false },
    textOf: () => "",
    moved: () => {},
    allowed: async () => true,
    stopping: new AbortController().signal,
    gone: new AbortController().signal,
  });
  return { store, port, stream };
}

test("ends the stream when the store returns with fewer events than were sent; a new stream begins at the store's end", async () => {
  const { store, port, stream } = storeAt(7);
  expect((await stream.next()).value).toContain('"newest":7');
  const next = stream.next();
  // By now it has found nothing more and waits to be woken.
  await new Promise(setImmediate);
  store.newest = 2;
  store.wake();
  expect((await next).value).toBe(
    'event: bye\ndata: {"reason":"the store has lost events that were sent here"}\n\n',
  );
  expect((await stream.next()).done).toBe(true);
  expect(await startOf({}, "7", port)).toEqual({ after: 2, reset: true });
});
