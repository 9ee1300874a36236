import { Readable } from "node:stream";
import { gunzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { createHttp } from "../../../src/control/http.ts";
import { RelayError } from "../../../src/model/errors.ts";

const long = { text: "event ".repeat(1_000) };
const taking = (encodings: string) => ({ "accept-encoding": encodings });

function http() {
  const app = createHttp(null, () => {});
  onTestFinished(() => app.close());
  app.get("/long", async () => long);
  app.get("/short", async () => ({ text: "event" }));
  app.get("/huge", async () => ({ text: "event ".repeat(3_000_000) }));
  app.get("/stream", async (_request, reply) =>
    reply.type("text/event-stream").send(Readable.from(["data: 1\n\n", "event ".repeat(1_000)])),
  );
  app.get("/kept", async (_request, reply) =>
    reply.header("cache-control", "max-age=60").send(long),
  );
  app.get("/unknown", async () => {
    throw new RelayError("unauthorized", "unknown token");
  });
  return app;
}

test("compresses a long answer for clients that take gzip, and no other one", async () => {
  const app = http();
  const { headers, rawPayload } = await app.inject({
    url: "/long",
    headers: taking("br, gzip;q=0.8"),
  });
  expect(headers).toMatchObject({
    "content-encoding": "gzip",
    vary: "accept-encoding",
    "content-length": String(rawPayload.length),
  });
  expect(rawPayload.length).toBeLessThan(200);
  expect(JSON.parse(gunzipSync(rawPayload).toString())).toEqual(long);
  for (const [url, encodings] of [
    ["/long", "identity"],
    ["/long", "gzip;q=0, br"],
    ["/short", "gzip"],
    ["/stream", "gzip"],
    // It would occupy a thread for long.
    ["/huge", "gzip"],
  ] as const) {
    const plain = await app.inject({ url, headers: taking(encodings) });
    expect([url, plain.statusCode, plain.headers["content-encoding"]]).toEqual([
      url,
      200,
      undefined,
    ]);
    expect(plain.body).toContain(url === "/stream" ? "data: 1" : "event");
  }
});

test("no answer may be stored, unless its endpoint says otherwise, and errors are no exception", async () => {
  const app = http();
  for (const [url, expected] of [
    ["/short", "no-store"],
    ["/stream", "no-store"],
    ["/unknown", "no-store"],
    ["/kept", "max-age=60"],
  ])
    expect([url, (await app.inject({ url: url as string })).headers["cache-control"]]).toEqual([
      url,
      expected,
    ]);
});

test("401 names the scheme of the token", async () => {
  const { statusCode, headers } = await http().inject({ url: "/unknown" });
  expect([statusCode, headers["www-authenticate"]]).toEqual([401, 'Bearer realm="wamid-relay"']);
});
