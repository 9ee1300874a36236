import { describe, expect, test } from "vitest";
import type { LookupAll } from "../../../src/net/name-lookup.ts";
import { attempt, destinationTo, told } from "./attempt.ts";
import { startHttp, startRaw } from "./downstream.ts";

const resolvesTo =
  (...addresses: string[]): LookupAll =>
  async () =>
    addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 }));

describe("with allowPrivate off nothing reaches loopback", () => {
  test.each([
    ["an IP literal", "127.0.0.1"],
    ["the unspecified address, which Linux takes for loopback", "0.0.0.0"],
    ["a name", "localhost"],
    ["an IPv6 literal", "[::1]"],
  ])("%s", async (_what, host) => {
    const downstream = await startHttp(
      (_request, response) => response.end(),
      host === "[::1]" ? "::1" : "127.0.0.1",
    );
    for (const scheme of ["http", "https"]) {
      const outcome = await attempt(
        destinationTo(`${scheme}://${host}:${downstream.port}/`, { allowPrivate: false }),
      );
      expect(told(outcome)).toMatch(/^failed blocked: .* not a public address/);
    }
    expect(downstream.accepted).toBe(0);
    // The pipe was alive: the same URL arrives when it may.
    expect(told(await attempt(destinationTo(`http://${host}:${downstream.port}/`)))).toBe("200");
  });
});

test("connects only to the allowed ones of several addresses", async () => {
  const blocked = await startHttp((_request, response) => response.end(), "127.0.0.1");
  const isPublic = (address: string) => address === "127.0.0.2";
  const allowed = await startRaw(
    (socket) => socket.once("data", () => socket.end("HTTP/1.1 202 Accepted\r\n\r\n")),
    "127.0.0.2",
    blocked.port,
  );
  const connector = { allowPrivate: false, isPublic, lookup: resolvesTo("127.0.0.1", "127.0.0.2") };
  const destination = destinationTo(`http://mixed.example:${blocked.port}/`, {}, connector);
  for (let n = 0; n < 3; n += 1) expect(told(await attempt(destination))).toBe("202");
  expect(allowed.accepted).toBe(3);
  expect(blocked.accepted).toBe(0);
});

test("checks the address of a name again at each connection", async () => {
  const downstream = await startRaw(
    (socket) => socket.once("data", () => socket.end("HTTP/1.1 202 Accepted\r\n\r\n")),
    "127.0.0.1",
  );
  const answers = ["127.0.0.1", "127.0.0.9"];
  const lookup: LookupAll = (name) => resolvesTo(answers.shift() ?? "127.0.0.9")(name);
  const connector = {
    allowPrivate: false,
    isPublic: (address: string) => address === "127.0.0.1",
    lookup,
  };
  const destination = destinationTo(`http://rebinding.example:${downstream.port}/`, {}, connector);
  expect(told(await attempt(destination))).toBe("202");
  expect(told(await attempt(destination))).toMatch(
    /^failed blocked: rebinding\.example \(127\.0\.0\.9\)/,
  );
});

test.each(["http", "https"])(
  "the address connected to is checked before a byte is written (%s)",
  async (scheme) => {
    let bytes = 0;
    const closed = Promise.withResolvers<void>();
    const downstream = await startRaw((socket) => {
      socket.on("data", (chunk) => {
        bytes += chunk.length;
      });
      socket.on("close", () => closed.resolve());
    });
    // Public when it is looked up, private when it is connected to: what no look-up should be able
    // to bring about.
    let asked = 0;
    const isPublic = () => {
      asked += 1;
      return asked === 1;
    };
    const connector = { allowPrivate: false, isPublic, lookup: resolvesTo("127.0.0.1") };
    const outcome = await attempt(
      destinationTo(`${scheme}://name.example:${downstream.port}/`, {}, connector),
    );
    expect(told(outcome)).toMatch(/^failed blocked: 127\.0\.0\.1 /);
    await closed.promise;
    expect(downstream.accepted).toBe(1);
    expect(bytes).toBe(0);
  },
);
