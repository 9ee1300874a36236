import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { Role } from "../../../src/app/engine.ts";
import { createRelay } from "../../../src/app/relay.ts";
import { parseSettings } from "../../../src/config/load.ts";
import { scopes } from "../../../src/config/schema.ts";
import { errorCodes } from "../../../src/model/errors.ts";
import { askRelay } from "../../harness/ask-relay.ts";
import { storageOf } from "../../harness/engines.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { relayToken, type SettingsParts, settingsOf } from "../../harness/relay-settings.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import {
  codesOf,
  documentOf,
  type OpenApi,
  type Operation,
  operationsOf,
  responseOf,
} from "./openapi-document.ts";
import { registered } from "./registered.ts";

const page = "/v1/openapi.json";
/** The routes under `/v1`, and the probes, that Fastify has, and what the page answers. */
async function routesAndPage(role: Role, parts: SettingsParts) {
  const folder = tempFolder();
  const text = JSON.stringify(settingsOf({ port: 0, storePath: join(folder, "relay.db") }, parts));
  const log = { write: () => {}, end: async () => {} };
  const relay = await createRelay({ settings: parseSettings(text, "relay.yaml", {}), log, role });
  onTestFinished(() => relay.close());
  const { port } = await relay.listen();
  const routes = (await registered(relay.http)).filter((route) =>
    / \/(v1\/|healthz|readyz)/.test(route),
  );
  return { routes: routes.toSorted(), answer: await askRelay(`http://127.0.0.1:${port}`, page) };
}

test("describes every route under /v1 and the probes; a worker has only the probes", async () => {
  const alone = await routesAndPage("both", {});
  expect([...operationsOf(alone.answer.body as OpenApi).keys()].toSorted()).toEqual(alone.routes);
  expect(alone.routes).toEqual(
    expect.arrayContaining([`GET ${page}`, "POST /v1/automations/{id}/runs", "GET /v1/listen"]),
  );

  const storage = await storageOf("postgres");
  const receiver = await routesAndPage("receive", storage);
  expect(receiver.routes).toEqual(alone.routes);
  expect(receiver.answer.body).toEqual(alone.answer.body);
  const worker = await routesAndPage("work", storage);
  expect(worker.routes).toEqual(["GET /healthz", "GET /readyz"]);
  const error =
    "no such page: this process has the role work, and processes with the role receive serve webhooks and /v1";
  expect([worker.answer.status, worker.answer.body]).toEqual([404, { error, code: "not_found" }]);
});

test("lists every error code with its status, in the operations that return it", async () => {
  const document = await documentOf(await startRelayHere());
  const { properties } = document.components.schemas["Error"] as {
    properties: { code: { enum: string[] } };
  };
  expect(properties.code.enum).toEqual(Object.keys(errorCodes));
  const operations = operationsOf(document);
  for (const operation of operations.values()) {
    for (const status of Object.keys(operation.responses).map(Number)) {
      const codes = codesOf(document, operation, status);
      const isUnready = operation.operationId === "getReadiness" && status === 503;
      expect(codes.length > 0).toBe(status >= 400 && !isUnready);
      for (const code of codes)
        expect(errorCodes[code as keyof typeof errorCodes].status).toBe(status);
    }
  }
  const send = operations.get("POST /v1/messages") as Operation;
  expect(codesOf(document, send, 409)).toEqual([
    "conflict",
    "idempotency_conflict",
    "outcome_unknown",
  ]);
  expect(codesOf(document, operations.get("GET /v1/listen") as Operation, 503)).toContain(
    "too_many_listeners",
  );
  // Only webhooks are answered so.
  expect(JSON.stringify(document.paths)).not.toMatch(/bad_signature|downstream_/);
});

test("each operation requires its scope and answers as described", async () => {
  const tokens = scopes.map((scope) => ({
    name: scope,
    token: `token-that-may-${scope}`,
    scopes: [scope],
  }));
  const relay = await startRelayHere({ settings: { control: { tokens, badTokenLimit: 1_000 } } });
  const ask = async (endpoint: string, token: string | null) => {
    const [method = "", path = ""] = endpoint.split(" ");
    // A stream has no end to wait for.
    const url =
      relay.url +
      path.replace(/\{\w+\}/g, "some") +
      (path === "/v1/listen" ? "?since=never" : path === "/v1/live" ? "?tail=never" : "");
    const answer = await fetch(url, {
      method,
      headers: token === null ? {} : { authorization: `Bearer ${token}` },
    });
    const type = answer.headers.get("content-type")?.split(";")[0] ?? "";
    return { status: answer.status, type, body: (await answer.json()) as { code?: string } };
  };
  const { body } = await ask(`GET ${page}`, "token-that-may-read");
  const document = body as OpenApi;
  for (const [endpoint, operation] of operationsOf(document)) {
    // Probes have no token, and whoever signs in has none yet.
    if (/^(GET \/(healthz|readyz)|(GET|POST) \/v1\/session(\/end)?)$/.test(endpoint)) {
      expect([endpoint, operation.security]).toEqual([endpoint, []]);
      continue;
    }
    const needed = operation["x-scope"];
    expect([endpoint, operation.security]).toEqual([endpoint, [{ token: [] }, { session: [] }]]);
    expect([undefined, ...scopes]).toContain(needed);
    expect(needed === undefined).toBe(endpoint === "POST /v1/session/code");
    for (const token of [null, "unknown", ...tokens.map(({ token }) => token)]) {
      const answer = await ask(endpoint, token);
      const said = responseOf(document, operation, answer.status);
      expect([endpoint, answer.status, Object.keys(said?.content ?? {})]).toEqual([
        endpoint,
        answer.status,
        expect.arrayContaining([answer.type]),
      ]);
      if (answer.status >= 400)
        expect(codesOf(document, operation, answer.status)).toContain(answer.body.code);
      if (token === null || token === "unknown")
        expect([endpoint, answer.status]).toEqual([endpoint, 401]);
      else if (needed !== undefined && token !== `token-that-may-${needed}`)
        expect([endpoint, answer.status]).toEqual([endpoint, 403]);
      else expect([401, 403]).not.toContain(answer.status);
    }
  }
});

test("describes the content types of bodies and answers that are not JSON", async () => {
  const relay = await startRelayHere();
  const operations = operationsOf(await documentOf(relay));
  const authorization = `Bearer ${relayToken}`;
  const track = operations.get("POST /v1/messages/track") as Operation;
  const types = Object.keys(track.requestBody?.content ?? {});
  expect(types).toEqual(["application/json", "application/x-ndjson"]);
  const body = `${JSON.stringify({ account: "main", wamid: "wamid.HBgNNTQ5MTE1NTU1MDEwMBUCABEYEkQ1" })}\n`;
  for (const type of types) {
    const answer = await fetch(`${relay.url}/v1/messages/track`, {
      method: "POST",
      headers: { authorization, "content-type": type },
      body,
    });
    expect([type, answer.status, answer.headers.get("content-type")?.split(";")[0]]).toEqual([
      type,
      200,
      type,
    ]);
    await answer.text();
  }
  expect(
    Object.keys(
      track.responses["200"] && "content" in track.responses["200"]
        ? track.responses["200"].content
        : {},
    ),
  ).toEqual(types);

  const listen = operations.get("GET /v1/listen")?.responses["200"];
  const ending = new AbortController();
  const stream = await fetch(`${relay.url}/v1/listen`, {
    headers: { authorization },
    signal: ending.signal,
  });
  expect(Object.keys(listen && "content" in listen ? listen.content : {})).toEqual([
    stream.headers.get("content-type"),
  ]);
  ending.abort();
});
