import { expect, test } from "vitest";
import { changedPaths } from "../../../src/config/fault.ts";
import { parseSettings } from "../../../src/config/load.ts";

const settings = (text: string) => parseSettings(text, "relay.yaml", {});
const changes = (before: string, after: string) => changedPaths(settings(before), settings(after));
const database = (url: string) => `storage: { driver: postgres, url: "${url}" }`;

test("a changed password is a change, although it prints the same", () => {
  expect(changes(database("postgres://u:a@r/d"), database("postgres://u:a@r/d"))).toEqual([]);
  expect(changes(database("postgres://u:a@r/d"), database("postgres://u:b@r/d"))).toEqual([
    "storage.url",
  ]);
  expect(changes("log: { level: info }", "log: { level: warn }\nserver: { port: 1 }")).toEqual([
    "log.level",
    "server.port",
  ]);
});

test("routes and tokens are matched by name, so that an inserted one does not change the others", () => {
  const route = (name: string, to = "") =>
    `{ name: ${name}, to: { url: "https://a.example"${to} } }`;
  const routes = (...all: string[]) => `routes: [${all.join(", ")}]`;
  expect(changes(routes(route("b")), routes(route("a"), route("b")))).toEqual(["routes[a]"]);
  expect(changes(routes(route("a"), route("b")), routes(route("b"), route("a")))).toEqual([]);
  expect(changes(routes(route("a"), route("b")), routes(route("b", ", rate: 5/s")))).toEqual([
    "routes[a]",
    "routes[b].to.rate",
  ]);
  const first = routes(route("a", ", secret: one"));
  expect(changes(first, routes(route("a", ", secrets: [one, two]")))).toEqual([
    "routes[a].to.secret",
    "routes[a].to.secrets",
  ]);
  expect(changes(first, routes(route("a", ", headers: { x-y: one }")))).toEqual([
    "routes[a].to.headers.x-y",
    "routes[a].to.secret",
  ]);
});

test("a list of secrets is one setting, and no path holds a value", () => {
  const source = (...secrets: string[]) =>
    `accounts: { main: {} }\nsources: { main: { account: main, signature: { service: acme, secrets: [${secrets.join(", ")}] } } }`;
  expect(changes(source("old"), source("new", "old"))).toEqual(["sources.main.signature.secrets"]);
  expect(changes("log: {}", source("old"))).toEqual(["accounts.main", "sources.main"]);
  const route = (where: string) =>
    `routes: [{ name: r, match: { where: { ${where} } }, to: { url: "https://a.example" } }]`;
  expect(changes(route('a.b: { $regex: "^x" }'), route('a.b: { $regex: "^y" }'))).toHaveLength(1);
  expect(changes(route('a.b: { $regex: "^x" }'), route('a.b: { $regex: "^x" }'))).toEqual([]);
});
