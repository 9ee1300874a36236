import { createServer } from "node:net";
import { expect, test } from "vitest";
import { listeningProcess, listeningSocket, portHolder } from "../../../src/cli/port-holder.ts";

const heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const row = (local: string, state: string, inode: number) =>
  `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  1000        0 ${inode} 1 00000000f3fb447d 100 0 0 10 0`;
const table = [
  heading,
  row("0100007F:1F90", "0A", 1),
  row("0200007F:1F90", "01", 2),
  row("0200007F:1F91", "0A", 3),
  row("00000000:1F92", "0A", 4),
].join("\n");

test.each([
  ["its address", "127.0.0.1", 8080, "1"],
  ["every address, which includes it", "0.0.0.0", 8080, "1"],
  ["a listener on every address", "127.0.0.1", 8082, "4"],
  ["a connection is no listener", "127.0.0.2", 8080, null],
  ["another address", "127.0.0.1", 8081, null],
  ["another port", "127.0.0.1", 8083, null],
])("finds the listening socket: %s", (_, host, port, inode) => {
  expect(listeningSocket(table, { host, port })).toEqual(inode === null ? null : { uid: 1000, inode });
});

test("finds a listener on an IPv4 address in the table of IPv6", () => {
  const mapped = [heading, row("0000000000000000FFFF00000100007F:1F90", "0A", 5)].join("\n");
  expect(listeningSocket(mapped, { host: "127.0.0.1", port: 8080 })).toEqual({ uid: 1000, inode: "5" });
  expect(listeningSocket(mapped, { host: "127.0.0.2", port: 8080 })).toBeNull();
});

test.each(["127.0.0.1", "::1"])("names the process that listens on %s", async (host) => {
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((listening) => server.listen(0, host, listening));
  const { port } = server.address() as { port: number };
  try {
    expect(listeningProcess({ host, port })).toEqual({ uid: process.getuid?.(), pid: process.pid });
    expect(await portHolder({ host, port })).toMatch(new RegExp(`^process ${process.pid} \\(node`));
  } finally {
    server.close();
  }
});
