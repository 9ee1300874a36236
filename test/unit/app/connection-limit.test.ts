import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, test } from "vitest";
import { limitConnections } from "../../../src/app/connection-limit.ts";
import type { Logger } from "../../../src/observe/logger.ts";
import { createMetrics } from "../../../src/observe/metrics.ts";

test("refuses connections before no descriptor is free, and reports the first of a minute", async () => {
  const lines: unknown[][] = [];
  const log = { warn: (...line: unknown[]) => lines.push(line) } as unknown as Logger;
  const metrics = createMetrics({ version: "1", node: "24", storage: "sqlite" });
  const server = createServer((_request, response) => response.end());
  limitConnections(server, { log, metrics }, 4);
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const open = async () => {
    const socket = connect(port, "127.0.0.1").on("error", () => {});
    await once(socket, "connect");
    return socket;
  };
  const kept = [await open(), await open()];
  for (let n = 0; n < 2; n += 1) await once((await open()).resume(), "close");
  expect(lines).toEqual([[{ refused: 1, limit: 2 }, expect.stringContaining("too many are open")]]);
  expect(await metrics.connectionsRefused.get()).toMatchObject({ values: [{ value: 2 }] });
  for (const socket of kept) socket.destroy();
  server.close();
});

test.each([
  [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY],
  [65_000, 63_976],
  [101, 50],
])("of %d free descriptors, %d are for connections", (free, most) => {
  const server = createServer();
  limitConnections(server, {} as never, free);
  expect(server.maxConnections).toBe(most);
});
