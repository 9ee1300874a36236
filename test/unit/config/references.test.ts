import { describe, expect, test } from "vitest";
import { parseSettings } from "../../../src/config/load.ts";
import { warnings } from "../../../src/config/warnings.ts";
import { faultsOf } from "./faults-of.ts";

/** The faults without their place, each as `path: message`. */
const between = (text: string, env: Record<string, string> = {}) =>
  faultsOf(text, env).map((line) => line.replace(/^\S+ /, ""));

const signature = 'signature: { service: acme, secrets: ["4c6f6e6720616e642072616e646f6d21"] }';
const to = 'to: { url: "https://a.example" }';

test("a token that no header carries, and URLs of Unix sockets, are faults", () => {
  const unix = "http://unix:/run/app.sock";
  const fault = "is a Unix socket, and the relay connects to hosts only: give host and port";
  const token = (text: string) =>
    `control: { tokens: [{ name: a, token: "${text}", scopes: [read] }] }`;
  expect(between(token("a token with spaces"))).toEqual([
    "control.tokens[0].token: holds characters that no Authorization header carries (a space or line break?)",
  ]);
  expect(between(token("a-token-without-spaces"))).toEqual([]);
  const text = `
accounts: { main: { baseUrl: "${unix}", apiKey: key } }
routes: [{ name: r, to: { url: "${unix}:/path" } }]
silence: { alertUrl: "${unix}" }
traces: { endpoint: "${unix}" }`;
  expect(between(text)).toEqual(
    ["accounts.main.baseUrl", "routes[0].to.url", "silence.alertUrl", "traces.endpoint"].map(
      (path) => `${path}: ${fault}`,
    ),
  );
  expect(between('routes: [{ name: r, to: { url: "http://unix:8080/run" } }]')).toEqual([]);
});

describe("names", () => {
  test("a source may leave its account out when there is only one; with several, the fault names them", () => {
    const text = (accounts: string) =>
      `accounts: { ${accounts} }\nsources: { s: { ${signature} }, flows: { kind: automation-request, ${signature} } }`;
    const { sources } = parseSettings(text("shop: {}"), "f", {});
    expect(Object.values(sources).map(({ account }) => account)).toEqual(["shop", "shop"]);
    expect(between(text("a: {}, b: {}"))).toEqual([
      "sources.s.account: is missing: name one of a, b",
      "sources.flows.account: is missing: name one of a, b",
    ]);
    expect(between(text(""))).toEqual([
      "sources.s.account: is missing, and accounts is empty: add one, such as main: {}",
      "sources.flows.account: is missing, and accounts is empty: add one, such as main: {}",
    ]);
  });

  test("accounts that a token is limited to must be there", () => {
    const token = (accounts: string) => `
accounts: { main: {}, other: {} }
control: { tokens: [{ name: a, token: "a-token-without-spaces", scopes: [read], accounts: ${accounts} }] }`;
    expect(between(token("[main, othr]"))).toEqual([
      "control.tokens[0].accounts[1]: names no account of this file (did you mean other?)",
    ]);
    expect(between(token("[main]"))).toEqual([]);
    // No account at all would be a token for nothing, not for everything.
    expect(between(token("[]"))).toHaveLength(1);
  });

  test("accounts and sources that routes and sources name must be there", () => {
    const text = `
accounts: { main: {} }
sources:
  main: { account: mian, ${signature} }
  other: { account: elsewhere, ${signature} }
routes:
  - { name: r, ${to}, match: { sources: [main, othr], accounts: [xyz] } }`;
    expect(between(text)).toEqual([
      "sources.main.account: names no account of this file (did you mean main?)",
      "sources.other.account: names no account of this file (there are: main)",
      "routes[0].match.sources[1]: names no source of this file (did you mean other?)",
      "routes[0].match.accounts[0]: names no account of this file (there are: main)",
    ]);
    expect(between(`sources: { s: { account: constructor, ${signature} } }`)).toEqual([
      "sources.s.account: names no account of this file (accounts is empty)",
    ]);
  });

  test("an invalid part keeps its name and hides no fault between the others", () => {
    const text = `
accounts: { main: { plan: huge } }
sources: { main: { account: main, ${signature}, fields: 3 } }
routes:
  - { name: r, ${to}, match: { sources: [main] } }
  - { name: r, ${to}, match: { sources: [none] } }
  - { name: s, ${to}, shards: 0, match: { sources: [none] } }`;
    expect(between(text)).toEqual([
      "accounts.main.plan: must be one of escala, enterprise",
      "sources.main.fields: must be a mapping, not a number",
      "routes[1].name: is the name of routes[0] too; names of routes are unique",
      "routes[1].match.sources[0]: names no source of this file (there are: main)",
      "routes[2].shards: must be at least 1",
      "routes[2].match.sources[0]: names no source of this file (there are: main)",
    ]);
  });
});

test("an account's base URL and key must be what the client can use", () => {
  const account = (text: string) => between(`accounts: { m: { ${text} } }`);
  const path = "accounts.m";
  for (const url of ["https://u:p@a.example", "https://a.example/?q=1", "https://a.example/#x"]) {
    expect(account(`baseUrl: "${url}"`)).toEqual([
      expect.stringMatching(new RegExp(`^${path}\\.baseUrl: holds a user`)),
    ]);
  }
  expect(account('baseUrl: "ftp://a.example"')).toHaveLength(1);
  for (const key of ["a key", "key\\n", "clé"]) {
    expect(account(`apiKey: "${key}"`)).toEqual([
      expect.stringMatching(new RegExp(`^${path}\\.apiKey: holds characters`)),
    ]);
  }
  expect(account('baseUrl: "https://a.example/some/path/", apiKey: "k-1_~"')).toEqual([]);
});

describe("sources", () => {
  const source = (rest: string) =>
    between(`accounts: { m: {} }\nsources: { s: { account: m, ${rest} } }`);

  test("proxy needs to, ack must not have it", () => {
    const flow = `kind: automation-request, ${signature}`;
    expect(source(`${flow}, mode: proxy`)).toEqual([
      "sources.s.to: is missing: mode proxy needs it to know where the request goes",
    ]);
    expect(source(`${flow}, ${to}`)).toEqual([
      "sources.s.to: is for mode proxy; with mode ack, events go to the routes",
    ]);
    expect(source(`${flow}, mode: proxy, ${to}`)).toEqual([]);
    expect(source(`${flow}, mode: proxy, to: { url: "http://10.1.2.3" }`)).toEqual([
      expect.stringContaining("allowPrivate: true"),
    ]);
    expect(source(`${flow}, mode: proxy, to: { url: "https://a.example", timeout: 10s }`)).toEqual([
      expect.stringContaining("9500ms"),
    ]);
  });

  test("service, header, or a preset that brings a header", () => {
    const signed = (axes: string) => source(`signature: { secrets: ["one"]${axes} }`);
    const missing = [
      expect.stringMatching(/^sources\.s\.signature\.header: is needed \(or service/),
    ];
    expect(signed("")).toEqual(missing);
    expect(signed(", preset: plain")).toEqual(missing);
    for (const axes of [", service: a", ", header: x-b", ", preset: meta", ", preset: stripe"])
      expect(signed(axes)).toEqual([]);
  });

  test("a tolerance needs a timestamp that is signed", () => {
    const signed = (axes: string) =>
      source(`signature: { service: a, secrets: ["one"], tolerance: 5m${axes} }`);
    expect(signed("")).toEqual([expect.stringMatching(/^sources\.s\.signature\.tolerance: /)]);
    expect(signed(', timestampHeader: x-t, content: "{timestamp}.{body}"')).toEqual([]);
    expect(signed(", preset: slack")).toEqual([]);
  });

  test("refuses a repeated secret, and one that is not in its encoding", () => {
    expect(source('signature: { service: a, secrets: ["one", "two", "one"] }')).toEqual([
      "sources.s.signature.secrets[2]: is the same secret as secrets[0]",
    ]);
    expect(
      source('signature: { service: a, secretEncoding: hex, secrets: ["abcd", "xyz"] }'),
    ).toEqual(["sources.s.signature.secrets[1]: is not in the encoding of secretEncoding (hex)"]);
  });
});

describe("control tokens", () => {
  test("refuses short tokens and repeated names and tokens", () => {
    const token = (name: string, text: string) =>
      `{ name: ${name}, token: "${text}", scopes: [read] }`;
    const long = "0123456789abcdef";
    expect(
      between(
        `control: { tokens: [${token("a", long)}, ${token("b", long)}, ${token("a", "0123456789abcde")}] }`,
      ),
    ).toEqual([
      "control.tokens[1].token: is the token of control.tokens[0] too",
      "control.tokens[2].name: is the name of control.tokens[0] too",
      expect.stringMatching(/^control\.tokens\[2\]\.token: is shorter than 16 characters/),
    ]);
  });
});

describe("destinations", () => {
  const route = (url: string, rest = "") =>
    between(`routes: [{ name: r, to: { url: "${url}"${rest} } }]`);

  test.each([
    "http://localhost:3000",
    "http://LOCALHOST.",
    "http://a.localhost",
    "http://127.1",
    "http://169.254.169.254/latest",
    "http://[::ffff:10.0.0.1]",
  ])("%s needs allowPrivate", (url) => {
    expect(route(url)).toEqual([
      expect.stringMatching(/^routes\[0\]\.to\.url: .* allowPrivate: true/),
    ]);
    expect(route(url, ", allowPrivate: true")).toEqual([]);
  });

  test.each([
    "https://8.8.8.8",
    "https://[2606:4700::1111]",
    "https://localhost.example",
    "https://10.example",
  ])("%s does not", (url) => {
    expect(route(url)).toEqual([]);
  });

  test("a signature passed through cannot verify over an enriched payload", () => {
    const text = (payload: string) =>
      `routes: [{ name: r, payload: ${payload}, to: { url: "https://a.example", passSignature: true } }]`;
    expect(between(text("original"))).toEqual([]);
    expect(between(text("enriched"))).toEqual([
      expect.stringMatching(/^routes\[0\]\.to\.passSignature: could never verify/),
    ]);
  });

  test("a signature passed through cannot verify one of several events", () => {
    const text = (match: string) => `
accounts: { m: {} }
sources:
  wa: { format: meta, signature: { secrets: [a-secret-of-16-bytes] } }
  s: { ${signature} }
routes: [{ name: r, match: { ${match} }, to: { url: "https://a.example", passSignature: true } }]`;
    expect(between(text(""))).toEqual([
      expect.stringMatching(
        /^routes\[0\]\.to\.passSignature: could not verify events of the source "wa"/,
      ),
    ]);
    expect(between(text("sources: [s]"))).toEqual([]);
  });

  test("a source of Meta's needs a check, and its numbers need accounts of the file", () => {
    const text = (wa: string) =>
      `accounts: { m: {}, n: {} }\nsources: { wa: { format: meta, ${wa} } }`;
    const check = "header: { name: authorization, values: [a-token-of-16-bytes] }";
    expect(between(text("account: m"))).toEqual([
      "sources.wa.signature: is missing: a source needs signature, header or pathSecrets",
    ]);
    expect(between(text(`account: m, ${check}`))).toEqual([]);
    expect(between(text(check))).toEqual([
      expect.stringMatching(/^sources\.wa\.account: is missing/),
    ]);
    expect(between(text(`${check}, accounts: { "106540352242922": n }`))).toEqual([]);
    expect(between(text(`${check}, accounts: { "106540352242922": o }`))).toEqual([
      expect.stringMatching(/^sources\.wa\.accounts\["106540352242922"\]: names no account/),
    ]);
    expect(between(text(`${check}, accounts: { abc: n }`))).toEqual([
      expect.stringMatching(/is not an id of digits/),
    ]);
  });
});

describe("warnings", () => {
  const warned = (text: string) => warnings(parseSettings(text, "f", {})).map(({ path }) => path);
  const complete = `
accounts: { m: {} }
sources: { s: { account: m, ${signature} } }
control: { tokens: [{ name: a, token: 8c1f0d5e7a9b4623, scopes: [read] }] }
routes: [{ name: r, to: { url: "https://a.example", secret: whsec_aGVyZSBhcmUgbW9yZSB0aGFuIDI0IGJ5dGVz } }]`;

  test("none for complete settings", () => {
    expect(warned(complete)).toEqual([]);
  });

  test("shards on a store of one process", () => {
    const sharded = complete.replace("name: r,", "name: r, shards: 2,");
    expect(warned(sharded)).toEqual(["routes[0].shards"]);
    expect(
      warned(`${sharded}\nstorage: { driver: postgres, url: "postgres://relay@db/relay" }`),
    ).not.toContain("routes[0].shards");
  });

  test("no sources, routes or tokens", () => {
    expect(warned("log: { level: info }")).toEqual(["sources", "control.tokens"]);
    expect(warned(complete.replace(/routes: .*/, ""))).toEqual(["routes"]);
  });

  test("a service with the name of a preset", () => {
    const signed = (text: string) =>
      warnings(parseSettings(complete.replace("service: acme", text), "f", {})).map(
        ({ path, message }) => `${path} ${message}`,
      );
    const path = "sources.s.signature.service";
    expect(signed("service: Meta")).toEqual([
      `${path} makes the header x-meta-signature; for signatures of meta, write "preset: meta" in its place`,
    ]);
    for (const text of ["preset: stripe, service: stripe", "service: slack"])
      expect(signed(text)).toEqual([expect.stringContaining(path)]);
    for (const text of [
      "service: plain",
      "service: acme",
      "preset: meta",
      "service: meta, header: x-own",
    ])
      expect(signed(text)).toEqual([]);
  });

  test("events deleted while they may still be parked", () => {
    const kept = (retention: string) =>
      warned(`${complete}\ntracking: { parkFor: 2h }\nretention: { ${retention} }`);
    expect(kept("events: 2h, ignored: 2h")).toEqual([]);
    expect(kept("events: 7199s, ignored: 2h")).toEqual(["tracking.parkFor"]);
    expect(kept("events: 1h, ignored: 1h")).toHaveLength(2);
  });

  test("plain http to public hosts, nothing that authenticates the relay, an account without source, clear logs", () => {
    expect(warned(complete.replace("https:", "http:"))).toEqual(["routes[0].to.url"]);
    expect(warned(complete.replace(/, secret: \S+/, ""))).toEqual(["routes[0].to"]);
    expect(warned(complete.replace("m: {}", "m: {}, n: {}"))).toEqual(["accounts.n"]);
    expect(warned(`${complete}\nlog: { pii: clear }`)).toEqual(["log.pii"]);
  });

  test("statuses and event kinds that the service's document does not name, with what was probably meant", () => {
    const match = (text: string) =>
      warnings(
        parseSettings(complete.replace("name: r,", `name: r, match: { ${text} },`), "f", {}),
      ).map(({ path, message }) => `${path} ${message}`);
    expect(
      match(
        "statuses: [failed, read, completed, started], events: [message.status, 'message.*', '*', '*.failed', automation.request]",
      ),
    ).toEqual([]);
    const status = "is not a status that the service's document names";
    expect(match("statuses: [failed, faild]")).toEqual([
      `routes[0].match.statuses[1] ${status} (did you mean failed?)`,
    ]);
    expect(match("statuses: [on-hold-by-provider]")).toEqual([
      expect.stringContaining(`${status} (there are: pending, sent, `),
    ]);
    const kind = "matches no event kind that the service's document names";
    expect(match("events: ['mesage.*']")).toEqual([
      `routes[0].match.events[0] ${kind} (did you mean message.*?)`,
    ]);
    expect(match("events: [mesage.status]")).toEqual([
      `routes[0].match.events[0] ${kind} (did you mean message.status?)`,
    ]);
    expect(match("events: [campaign.finished]")).toEqual([
      expect.stringContaining(`${kind} (there are: message.status, `),
    ]);
    expect(
      warned(complete.replace("name: r,", "name: r, match: { events: ['mesage.*'] },")),
    ).toEqual(["routes[0].match.events[0]"]);
    const meta = complete
      .replace("name: r,", "name: r, match: { events: [message.received, meta.flows] },")
      .replace("account: m,", "account: m, format: meta,");
    expect(warned(meta)).toEqual([]);
  });

  test("an account with only one of baseUrl and apiKey, or with its key over plain http", () => {
    const account = (text: string) =>
      warnings(parseSettings(complete.replace("m: {}", `m: { ${text} }`), "f", {})).map(
        ({ path, message }) => `${path} ${message}`,
      );
    const key = "apiKey: a-key";
    expect(account(`${key}, baseUrl: "https://service.example"`)).toEqual([]);
    expect(account(key)).toEqual([
      expect.stringMatching(/^accounts\.m\.apiKey has no effect without baseUrl/),
    ]);
    expect(account('baseUrl: "https://service.example"')).toEqual([
      expect.stringMatching(/^accounts\.m\.baseUrl has no effect without apiKey/),
    ]);
    const open = [expect.stringMatching(/^accounts\.m\.baseUrl is http: the API key/)];
    for (const host of ["service.example", "10.1.2.3", "[fd00::1]"])
      expect(account(`${key}, baseUrl: "http://${host}"`)).toEqual(open);
    for (const host of ["localhost:8080", "127.0.0.1", "[::1]:9000"])
      expect(account(`${key}, baseUrl: "http://${host}/x/"`)).toEqual([]);
    expect(account(`${key}, baseUrl: "https://service.example/api/v1/"`)).toEqual([
      expect.stringContaining("adds to it by itself"),
    ]);
  });
});
