import { expect, test } from "vitest";
import type { RelayOverview } from "../../../src/model/overview.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { doctorOn } from "../cli/run-cli.ts";
import { startHttp } from "../url-destination/downstream.ts";

const verifyToken = "a-verify-token-of-the-app";

/** An app that takes each token once, as Typebot does. `tokens`: those that it takes. */
async function openApp() {
  const app = { tokens: new Set([verifyToken]), requests: 0, url: "" };
  const server = await startHttp((request, response) => {
    app.requests += 1;
    const query = new URL(request.url ?? "", "http://app").searchParams;
    if (!app.tokens.delete(query.get("hub.verify_token") ?? ""))
      response.writeHead(401).end(`not ${verifyToken}`);
    else
      response
        .setHeader("content-type", "application/json")
        .end(JSON.stringify(Number(query.get("hub.challenge"))));
  });
  app.url = server.url;
  return app;
}

const routesOf = (url: string, token = verifyToken) => [
  routeTo(url, { name: "typebot", to: { verifyToken: token } }),
  routeTo(url, { name: "plain" }),
];
const shake = async (relay: RelayHere, body?: unknown, route = "typebot") =>
  (
    await relay.ask(`/v1/routes/${route}/handshake`, {
      method: "POST",
      ...(body === undefined ? {} : { body }),
    })
  ).body;
const shown = async (relay: RelayHere) =>
  ((await relay.ask("/v1/overview")).body as RelayOverview).destinations.map(
    ({ handshake }) => handshake,
  );

test("a handshake that succeeded is stored, and repeated only on request or with another token", async () => {
  const app = await openApp();
  const relay = await startRelayHere({ settings: { routes: routesOf(app.url) } });
  expect(await shown(relay)).toEqual([{ doneAt: null }, null]);
  const [first, second] = await Promise.all([shake(relay), shake(relay)]);
  expect(first).toEqual({
    route: "typebot",
    result: "done",
    doneAt: expect.any(String),
    problem: null,
  });
  expect(second).toEqual(first);
  const { doneAt } = first as { doneAt: string };

  await relay.stop();
  await relay.start();
  expect(await shake(relay)).toEqual({
    route: "typebot",
    result: "remembered",
    doneAt,
    problem: null,
  });
  expect(await shown(relay)).toEqual([{ doneAt }, null]);
  expect(app.requests).toBe(1);

  const problem = "it answered 401 instead of 200";
  expect(await shake(relay, { repeat: true })).toEqual({
    route: "typebot",
    result: "failed",
    doneAt,
    problem,
  });
  expect(await shown(relay)).toEqual([{ doneAt }, null]);
  app.tokens.add("another-token");
  relay.writeSettings({ routes: routesOf(app.url, "another-token") });
  await relay.reload();
  expect(await shake(relay)).toMatchObject({ result: "done" });
  expect(app.requests).toBe(3);
  expect(JSON.stringify(relay.log())).not.toContain(verifyToken);
});

test("only a route with a verify token has a handshake", async () => {
  const relay = await startRelayHere({ settings: { routes: routesOf("http://127.0.0.1:9/") } });
  expect(await shake(relay, {}, "plain")).toMatchObject({
    code: "conflict",
    error: expect.stringContaining("to.verifyToken"),
  });
  expect(await shake(relay, {}, "typebt")).toMatchObject({
    code: "not_found",
    error: expect.stringContaining("typebot"),
  });
  expect(await shake(relay)).toMatchObject({
    result: "failed",
    doneAt: null,
    problem: expect.stringMatching(/^no answer: /),
  });
});

test("doctor performs it once through the relay, and shows when it was done", async () => {
  const app = await openApp();
  const relay = await startRelayHere({ settings: { routes: routesOf(app.url) } });
  const doctor = async (...options: string[]) =>
    (await doctorOn(relay, ...options)).said("handshake");
  expect(await doctor("--offline")).toEqual(["skip typebot: --offline"]);
  const [done] = await doctor();
  expect(done).toMatch(/^ok typebot: done on 20/);
  expect(await doctor("--handshake")).toEqual([
    `fail typebot: it answered 401 instead of 200; it succeeded on ${done?.slice(-24)}, and the app may take its token only once`,
  ]);
  await relay.stop();
  expect(await doctor()).toEqual([done]);
  relay.writeSettings({ routes: routesOf(app.url, "another-token") });
  expect(await doctor()).toEqual(["skip typebot: the relay performs it, and does not answer"]);
});
