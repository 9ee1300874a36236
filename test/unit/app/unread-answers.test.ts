import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { PassThrough } from "node:stream";
import { expect, onTestFinished, test } from "vitest";
import { createWebServer } from "../../../src/app/web-server.ts";

/** More than the buffers of a connection take. */
const size = 32 * 1024 * 1024;

async function open(requestTimeout: number) {
  const web = createWebServer(
    { host: "127.0.0.1", port: 0, requestTimeout, trustProxy: [] },
    { webhooks: () => false, failed: () => {} },
  );
  // Only the deadline of the answer is tried. A busy machine may take longer than it to read a
  // request.
  web.server.headersTimeout = 0;
  web.server.requestTimeout = 0;
  web.http.get("/page", async (_request, reply) => reply.send(Buffer.alloc(size)));
  web.http.get("/events", async (_request, reply) => {
    const events = new PassThrough();
    events.write(": hello\n\n");
    return reply.type("text/event-stream").send(events);
  });
  const { port } = await web.listen();
  const clients: Socket[] = [];
  onTestFinished(async () => {
    for (const client of clients) client.destroy();
    await web.close();
  });
  /** Both ends of a connection that asked for a page. */
  const get = async (path: string) => {
    const client = connect(port, "127.0.0.1");
    clients.push(client);
    client.on("error", () => {});
    const [held] = (await once(web.server, "connection")) as [Socket];
    client.write(`GET ${path} HTTP/1.1\r\nhost: relay.test\r\n\r\n`);
    return { client, held };
  };
  return get;
}

const closed = ({ held }: { held: Socket }) => (held.destroyed ? undefined : once(held, "close"));

test("a client that does not read its answer loses its connection", async () => {
  const get = await open(100);
  await closed(await get("/page"));
});

test("an event stream in which nothing happens stays open", async () => {
  const get = await open(100);
  const events = await get("/events");
  const [text] = await once(events.client, "data");
  expect(String(text)).toContain("200 OK");
  for (const page of [await get("/page"), await get("/page")]) await closed(page);
  expect(events.held.destroyed).toBe(false);
});

test("a client that reads gets all of it, and keeps its connection for another request", async () => {
  const get = await open(60_000);
  const { client, held } = await get("/page");
  let bytes = 0;
  client.on("data", (some) => {
    bytes += some.length;
  });
  for (const pages of [1, 2]) {
    await expect.poll(() => bytes, { timeout: 60_000 }).toBeGreaterThanOrEqual(pages * size);
    client.write("GET /page HTTP/1.1\r\nhost: relay.test\r\n\r\n");
  }
  expect(held.destroyed).toBe(false);
});
