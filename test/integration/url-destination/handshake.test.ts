import type { RequestListener } from "node:http";
import { expect, test } from "vitest";
import { routeUrlSchema, shakeHands } from "../../../src/deliver/destinations/url.ts";
import { until } from "../../harness/until.ts";
import { startHttp } from "./downstream.ts";

const challenge = "1158201444";

const shake = (url: string, settings: Record<string, unknown> = {}, token = "a token") =>
  shakeHands(routeUrlSchema.parse({ url, allowPrivate: true, ...settings }), token, challenge);

test("sends Meta's request after the URL's own query, with the headers of the settings", async () => {
  const downstream = await startHttp((_request, response) => response.end(challenge));
  const url = `${downstream.url}/whatsapp/+15550001111?team=a+b`;
  expect(await shake(url, { headers: { Authorization: "Basic abc" } }, "tök&en +/=")).toBeNull();
  expect(downstream.seen).toMatchObject([
    {
      method: "GET",
      path: `/hook/whatsapp/+15550001111?team=a+b&hub.mode=subscribe&hub.challenge=${challenge}&hub.verify_token=t%C3%B6k%26en%20%2B%2F%3D`,
      headers: { authorization: "Basic abc" },
    },
  ]);
  expect(downstream.seen[0]?.body).toHaveLength(0);
});

test.each<[string, RequestListener, string | null]>([
  ["text", (_, response) => response.setHeader("content-type", "text/plain").end(challenge), null],
  [
    "a JSON number",
    (_, response) => response.setHeader("content-type", "application/json").end(challenge),
    null,
  ],
  [
    "a challenge in two parts",
    (_, response) => {
      response.write("11582");
      response.end("01444");
    },
    null,
  ],
  [
    "200 with another body",
    (_, response) =>
      response
        .setHeader("content-type", "application/json; x=secret")
        .end('{"message":"a secret"}'),
    "it answered 200 with another body (application/json) instead of the challenge",
  ],
  [
    "a quoted challenge",
    (_, response) => response.end(`"${challenge}"`),
    "it answered 200 with another body instead of the challenge",
  ],
  [
    "a long body",
    (_, response) => response.end(challenge.repeat(1000)),
    "it answered 200 with another body instead of the challenge",
  ],
  [
    "an empty body",
    (_, response) => response.end(),
    "it answered 200 with no body instead of the challenge",
  ],
  [
    "403 with the challenge",
    (_, response) => response.writeHead(403).end(challenge),
    "it answered 403 with the challenge, which Meta takes as a refusal",
  ],
  [
    "401",
    (_, response) => response.writeHead(401).end("a secret"),
    "it answered 401 instead of 200",
  ],
  [
    "a redirect",
    (_, response) => response.writeHead(302, { location: "/login" }).end(),
    "it answered 302, a redirect, which neither Meta nor the relay follows",
  ],
])("judges %s", async (_name, answer, problem) => {
  const downstream = await startHttp(answer);
  expect(await shake(downstream.url)).toBe(problem);
  expect(downstream.seen).toHaveLength(1);
});

test("reports a missing answer, and goes through the address guard", async () => {
  const silent = await startHttp(() => {});
  // On a busy machine, the time may be over before there is a connection.
  await until("it is connected and asked", async () => {
    const problem = await shake(silent.url, { timeout: "100ms" });
    expect(problem).toMatch(/^no answer: no (answer|connection) within 100 ms$/);
    return problem?.includes("no answer within");
  });
  const guarded = await startHttp(() => {});
  expect(await shake(guarded.url, { allowPrivate: false })).toMatch(
    /^no answer: 127\.0\.0\.1 is not a public address/,
  );
  expect(guarded.accepted).toBe(0);
});
