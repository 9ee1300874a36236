// Slow: it waits for calls to the service to time out.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { makeRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { runOn } from "./run-cli.ts";

interface Check {
  readonly check: string;
  readonly level: "ok" | "warn" | "fail";
  readonly message: string;
  readonly todo?: string;
}

const json = { "content-type": "application/json" };
const answers: Record<string, (request: IncomingMessage, response: ServerResponse) => void> = {
  good: (_, response) => response.writeHead(200, json).end('{"nombre":"Acme","plan":"escala"}'),
  revoked: (_, response) => response.writeHead(401, json).end('{"error":"La clave no es válida.","cause":null}'),
  blocked: (_, response) => response.writeHead(429, json).end('{"error":"Demasiados intentos."}'),
  busy: (_, response) => response.writeHead(429, { ...json, "retry-after": "60", "x-ratelimit-limit": "60" }).end('{"error":"Muchas."}'),
  spent: (_, response) =>
    response
      .writeHead(429, json)
      .end(
        '{"error":"Sin cupo.","cause":{"type":"upgrade","reason":"limit","resource":"apiCalls","plan":"escala","limit":300000,"used":300000,"suggested":"enterprise"}}',
      ),
  small: (_, response) =>
    response
      .writeHead(402, json)
      .end(
        '{"error":"Tu plan no lo permite.","cause":{"type":"upgrade","reason":"plan","resource":"api","plan":"growth","suggested":"escala"}}',
      ),
  broken: (_, response) => response.writeHead(500).end(),
  website: (_, response) => response.writeHead(200, { "content-type": "text/html" }).end("<html>hola</html>"),
  elsewhere: (_, response) => response.writeHead(404, { "content-type": "text/html" }).end("<html>no</html>"),
  moved: (_, response) => response.writeHead(301, { location: "https://b.example" }).end(),
};

/** A server whose first part of the path says how it answers, as a base URL with a path would be. */
async function openService(): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    answers[request.url?.split("/")[1] ?? ""]?.(request, response);
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

test("tries each account's key once, and reports whether it works", { tags: ["slow"] }, async () => {
  const service = await openService();
  const names = [...Object.keys(answers), "silent"];
  const relay = await makeRelayHere({
    settings: {
      accounts: {
        main: {},
        ...Object.fromEntries(names.map((name) => [name, { baseUrl: `${service.url}/${name}`, apiKey: `key-of-${name}` }])),
        away: { baseUrl: "http://127.0.0.1:1", apiKey: "key-of-away" },
        half: { baseUrl: service.url },
      },
    },
  });
  const { code, out, err } = await runOn(relay, "doctor", "--json");
  const checks = (JSON.parse(out) as { checks: Check[] }).checks.filter(({ check }) => check === "service");
  expect(code).toBe(1);
  expect(err).toContain("checks failed");
  const at = (name: string) => `${service.url}/${name}`;
  expect(checks.map(({ level, message }) => `${level} ${message}`)).toEqual([
    expect.stringMatching(new RegExp(`^ok good: the key works at ${at("good")} \\(\\d+ ms\\)$`)),
    `fail revoked: ${at("revoked")}: GET /me: 401, the API key is missing, misspelled or revoked`,
    `fail blocked: ${at("blocked")}: GET /me: 429, this address is blocked for a minute because of bad keys`,
    `warn busy: ${at("busy")}: GET /me: 429, a per-minute cap is reached: the service reports 60, your plan says 300`,
    expect.stringMatching(/^warn spent: \S+: GET \/me: 429, the monthly quota is used up \(apiCalls\) until \d{4}-\d\d-01T03:00:00.000Z$/),
    `fail small: ${at("small")}: GET /me: 402, the account's plan does not permit it`,
    `warn broken: ${at("broken")}: GET /me: 500, the service failed`,
    `fail website: ${at("website")}: GET /me: 200, the answer does not match the service's document: the body is not JSON`,
    `fail elsewhere: ${at("elsewhere")}: GET /me: 404, the answer does not match the service's document: the body is not JSON`,
    `fail moved: ${at("moved")}: GET /me: 301, an answer that the service's document does not describe`,
    `fail silent: ${at("silent")}: GET /me: no answer in time (5000 ms)`,
    "fail away: http://127.0.0.1:1: GET /me: no answer (ECONNREFUSED)",
    "skip main, half: no baseUrl or no apiKey",
  ]);
  const todo = (name: string) => checks.find(({ message }) => message.startsWith(`${name}:`))?.todo;
  expect(todo("revoked")).toContain("accounts.revoked.apiKey");
  expect(todo("busy")).toContain("accounts.busy.share");
  expect(todo("small")).toMatch(/^escala would/);
  for (const name of ["website", "elsewhere", "moved", "silent", "away"]) expect(todo(name)).toContain(`accounts.${name}.baseUrl`);
  // Once each, nothing else, and no key is printed.
  expect(service.asked.toSorted()).toEqual(names.map((name) => `GET /${name}/api/v1/me Bearer key-of-${name}`).toSorted());
  expect(out).not.toContain("key-of-");
  expect(err).not.toContain("key-of-");
});

test("--offline calls neither the service nor destinations", async () => {
  const service = await openService();
  const downstream = await openDownstream();
  const settings = { accounts: { main: { baseUrl: `${service.url}/good`, apiKey: "a-key" } }, routes: [routeTo(downstream.url)] };
  const relay = await makeRelayHere({ settings });
  const checksOf = async (...more: string[]) => {
    const { code, out } = await runOn(relay, "doctor", "--json", ...more);
    return [code, (JSON.parse(out) as { checks: Check[] }).checks.filter(({ check }) => check === "service" || check === "destination")];
  };
  expect(await checksOf("--offline")).toMatchObject([
    0,
    [
      { check: "destination", level: "skip", message: "--offline" },
      { check: "service", level: "skip", message: "--offline" },
    ],
  ]);
  expect([service.asked.length, downstream.arrivals.length]).toEqual([0, 0]);
  expect(await checksOf()).toMatchObject([
    0,
    [
      { check: "destination", level: "ok" },
      { check: "service", level: "ok" },
    ],
  ]);
  expect(service.asked).toHaveLength(1);
});
