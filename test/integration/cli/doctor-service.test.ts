// Slow: it waits for calls to the service to time out.
import { expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { makeRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { startHttp } from "../url-destination/downstream.ts";
import { doctorOn } from "./run-cli.ts";

const json = { "content-type": "application/json" };
const upgrade = (cause: object) =>
  JSON.stringify({
    error: "No.",
    cause: { type: "upgrade", plan: "escala", suggested: "enterprise", ...cause },
  });
type Answer = readonly [status: number, headers: Readonly<Record<string, string>>, body?: string];
const answers: Readonly<Record<string, Answer>> = {
  good: [200, json, '{"nombre":"Acme","plan":"escala"}'],
  revoked: [401, json, '{"error":"La clave no es válida.","cause":null}'],
  blocked: [429, json, '{"error":"Demasiados intentos."}'],
  busy: [429, { ...json, "retry-after": "60", "x-ratelimit-limit": "60" }, '{"error":"Muchas."}'],
  spent: [
    429,
    json,
    upgrade({ reason: "limit", resource: "apiCalls", limit: 300_000, used: 300_000 }),
  ],
  small: [
    402,
    json,
    upgrade({ reason: "plan", resource: "api", plan: "growth", suggested: "escala" }),
  ],
  broken: [500, {}],
  website: [200, { "content-type": "text/html" }, "<html>hola</html>"],
  elsewhere: [404, { "content-type": "text/html" }, "<html>no</html>"],
  moved: [301, { location: "https://b.example" }],
};

/**
 * A server whose first part of the path says how it answers, as a base URL with a path would be.
 */
async function openService(): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = [];
  const { port } = await startHttp((request, response) => {
    asked.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    const [status, headers, body] = answers[request.url?.split("/")[1] ?? ""] ?? [];
    if (status !== undefined) response.writeHead(status, headers).end(body);
  });
  return { url: `http://127.0.0.1:${port}`, asked };
}

test("tries each account's key once, and reports whether it works", {
  tags: ["slow"],
}, async () => {
  const service = await openService();
  const names = [...Object.keys(answers), "silent"];
  const relay = await makeRelayHere({
    settings: {
      accounts: {
        main: {},
        ...Object.fromEntries(
          names.map((name) => [
            name,
            { baseUrl: `${service.url}/${name}`, apiKey: `key-of-${name}` },
          ]),
        ),
        away: { baseUrl: "http://127.0.0.1:1", apiKey: "key-of-away" },
        half: { baseUrl: service.url },
      },
    },
  });
  const { code, err, checks, said } = await doctorOn(relay);
  expect(code).toBe(1);
  expect(err).toContain("checks failed");
  const at = (name: string) => `${service.url}/${name}`;
  expect(said("service")).toEqual([
    expect.stringMatching(new RegExp(`^ok good: the key works at ${at("good")} \\(\\d+ ms\\)$`)),
    `fail revoked: ${at("revoked")}: GET /me: 401, the API key is missing, misspelled or revoked`,
    `fail blocked: ${at("blocked")}: GET /me: 429, this address is blocked for a minute because of bad keys`,
    `warn busy: ${at("busy")}: GET /me: 429, a per-minute cap is reached: the service reports 60, your plan says 300`,
    expect.stringMatching(
      /^warn spent: \S+: GET \/me: 429, the monthly quota is used up \(apiCalls\) until \d{4}-\d\d-01T03:00:00.000Z$/,
    ),
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
  for (const name of ["website", "elsewhere", "moved", "silent", "away"])
    expect(todo(name)).toContain(`accounts.${name}.baseUrl`);
  // Once each, nothing else, and no key is printed.
  expect(service.asked.toSorted()).toEqual(
    names.map((name) => `GET /${name}/api/v1/me Bearer key-of-${name}`).toSorted(),
  );
  expect(`${JSON.stringify(checks)}${err}`).not.toContain("key-of-");
});

test("--offline calls neither the service nor destinations", async () => {
  const service = await openService();
  const downstream = await openDownstream();
  const settings = {
    accounts: { main: { baseUrl: `${service.url}/good`, apiKey: "a-key" } },
    routes: [routeTo(downstream.url)],
  };
  const relay = await makeRelayHere({ settings });
  const checksOf = async (...more: string[]) => {
    const { code, said } = await doctorOn(relay, ...more);
    return [code, ...said("service", "destination")];
  };
  expect(await checksOf("--offline")).toEqual([0, "skip --offline", "skip --offline"]);
  expect([service.asked.length, downstream.arrivals.length]).toEqual([0, 0]);
  expect(await checksOf()).toEqual([
    0,
    expect.stringMatching(/^ok /),
    expect.stringMatching(/^ok /),
  ]);
  expect(service.asked).toHaveLength(1);
});
