import { createServer as createTlsServer } from "node:https";
import tls from "node:tls";
import { expect, test, vi } from "vitest";
import { longestWaitMs } from "../../harness/until.ts";
import { freePort } from "../../setup/free-port.ts";
import { attempt, destinationTo, told } from "./attempt.ts";
import { allClosed, listen, startHttp, startRaw } from "./downstream.ts";
import { selfSigned } from "./self-signed.ts";

test("reports a refused connection and connects again the next time", async () => {
  const port = await freePort();
  const destination = destinationTo(`http://127.0.0.1:${port}/`);
  expect(told(await attempt(destination))).toMatch(
    /^failed connect: no connection \(ECONNREFUSED\)/,
  );
  expect(told(await attempt(destination))).toMatch(/^failed connect: /);
  const answer = "HTTP/1.1 204 No Content\r\n\r\n";
  await startRaw((socket) => socket.once("data", () => socket.write(answer)), "127.0.0.1", port);
  expect(told(await attempt(destination))).toBe("204");
});

test("a name that does not resolve", async () => {
  for (const allowPrivate of [true, false]) {
    const outcome = await attempt(destinationTo("http://nowhere.invalid/", { allowPrivate }));
    expect(told(outcome)).toMatch(/^failed dns: nowhere\.invalid does not resolve/);
  }
});

test("ends a hanging lookup at the deadline", async () => {
  const destination = destinationTo(
    "http://slow.example/",
    { timeout: "100ms" },
    { allowPrivate: true, lookup: () => new Promise(() => {}) },
  );
  expect(told(await attempt(destination))).toBe("failed timeout: no connection within 100 ms");
});

test("tries the next address of a name when the first ones refuse", async () => {
  const downstream = await startHttp((_request, response) => response.end());
  const destination = destinationTo(
    `http://several.example:${downstream.port}/`,
    {},
    {
      allowPrivate: true,
      lookup: async () =>
        ["127.0.0.3", "::1", "127.0.0.1"].map((address) => ({
          address,
          family: address === "::1" ? 6 : 4,
        })),
    },
  );
  expect(told(await attempt(destination))).toBe("200");
  expect(downstream.seen[0]?.headers.host).toBe(`several.example:${downstream.port}`);
});

test("TLS to a plain port", async () => {
  const downstream = await startHttp((_request, response) => response.end());
  expect(told(await attempt(destinationTo(`https://127.0.0.1:${downstream.port}/`)))).toMatch(
    /^failed tls: /,
  );
  expect(downstream.seen).toHaveLength(0);
});

test("reports a TLS handshake that hangs or breaks", async () => {
  const hanging = await startRaw((socket) => void socket.resume());
  const outcome = await attempt(
    destinationTo(`https://127.0.0.1:${hanging.port}/`, { timeout: "150ms" }),
  );
  expect(told(outcome)).toBe("failed timeout: no connection within 150 ms");
  await allClosed(hanging);
  const breaking = await startRaw((socket) => socket.once("data", () => socket.end()));
  expect(told(await attempt(destinationTo(`https://127.0.0.1:${breaking.port}/`)))).toMatch(
    /^failed tls: /,
  );
});

test("rejects a self-signed certificate until it is trusted", async () => {
  const pair = selfSigned();
  let requests = 0;
  const resumed: boolean[] = [];
  const server = createTlsServer(pair, (request, response) => {
    requests += 1;
    resumed.push((request.socket as tls.TLSSocket).isSessionReused());
    response.setHeader("connection", "close").end("ok");
  });
  const downstream = await listen(server);
  for (const host of ["127.0.0.1", "localhost"]) {
    const outcome = await attempt(destinationTo(`https://${host}:${downstream.port}/`));
    expect(told(outcome)).toMatch(/^failed tls: .*DEPTH_ZERO_SELF_SIGNED_CERT/);
  }
  expect(requests).toBe(0);

  const before = tls.getCACertificates("default");
  tls.setDefaultCACertificates([...before, pair.cert]);
  try {
    for (const host of ["127.0.0.1", "localhost"]) {
      const destination = destinationTo(`https://${host}:${downstream.port}/`);
      expect(told(await attempt(destination))).toBe("200");
      expect(told(await attempt(destination))).toBe("200");
    }
    // A name that the certificate does not have.
    const connector = {
      allowPrivate: true,
      lookup: async () => [{ address: "127.0.0.1", family: 4 }],
    };
    expect(
      told(
        await attempt(destinationTo(`https://other.example:${downstream.port}/`, {}, connector)),
      ),
    ).toMatch(/^failed tls: .*ALTNAME/);
  } finally {
    tls.setDefaultCACertificates(before);
  }
  expect(requests).toBe(4);
  // The second connection of a destination resumes the session of the first.
  await vi.waitFor(() => expect(resumed).toEqual([false, true, false, true]), longestWaitMs);
});
