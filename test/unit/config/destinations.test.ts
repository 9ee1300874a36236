import { expect, test } from "vitest";
import { parseSettings } from "../../../src/config/load.ts";
import { printSettings } from "../../../src/config/print.ts";
import { warnings } from "../../../src/config/warnings.ts";
import { destinationKeys } from "../../../src/deliver/settings.ts";
import { faultsOf } from "./faults-of.ts";

const withTo = (to: string) => `routes: [{ name: r, to: { ${to} } }]`;
/** Faults without the place in the file. */
const faults = (to: string, env: Record<string, string> = {}) =>
  faultsOf(withTo(to), env).map((fault) => fault.replace(/^\S+ /, ""));
const toOf = (to: string, env: Record<string, string> = {}) =>
  parseSettings(withTo(to), "f", env).routes[0]?.to;
const redis = "redis: 'redis://r'";

const kinds = destinationKeys.join(", ");

test("a destination is one of url, queue and stream", () => {
  expect(kinds).toMatch(/^url, queue, stream/);
  expect(faults("timeout: 1s")).toEqual([`routes[0].to: must have one of ${kinds}`]);
  expect(faults("qeue: q, timeout: 1s")).toEqual([
    `routes[0].to: must have one of ${kinds}`,
    "routes[0].to.qeue: unknown setting (did you mean queue?)",
  ]);
  expect(faults(`url: 'https://x.example', queue: q, ${redis}`)).toEqual([
    `routes[0].to.queue: stands beside url; a destination is one of ${kinds}`,
  ]);
  expect(faults(`stream: s, queue: q, ${redis}`)).toEqual([
    `routes[0].to.stream: stands beside queue; a destination is one of ${kinds}`,
  ]);
  expect(faultsOf("routes: [{ name: r, to: text }]")).toEqual([
    "relay.yaml:1:25 routes[0].to: must be a mapping, not text",
  ]);
  expect(faultsOf("routes:\n  - name: r\n    to:\n      url:https://x.example")).toEqual([
    "relay.yaml:4:7 routes[0].to: must be a mapping, not text (put a space after ':')",
  ]);
  expect(faultsOf("routes: [{ name: r, to: 'https://x.example' }]")).toEqual([
    "relay.yaml:1:25 routes[0].to: must be a mapping, not text",
  ]);
});

test("settings of another kind, and what is missing or wrong in its own", () => {
  expect(faults("queue: q")).toEqual(["routes[0].to.redis: is missing"]);
  expect(faults("queue: 5, redis: ''")).toEqual([
    "routes[0].to.queue: must be text, not a number (put it in quotes)",
    expect.stringMatching(/^routes\[0\]\.to\.redis: is empty/),
  ]);
  expect(faults(`queue: 'a:b', ${redis}, headers: {}, maxLength: 5`)).toEqual([
    "routes[0].to.queue: is not the name of a queue (no colon, no space, at most 128 characters)",
    "routes[0].to.headers: unknown setting here (it belongs to another kind of destination)",
    "routes[0].to.maxLength: unknown setting here (it belongs to another kind of destination)",
  ]);
  expect(faults(`stream: s, ${redis}, jobName: x`)).toEqual([
    "routes[0].to.jobName: unknown setting here (it belongs to another kind of destination)",
  ]);
  expect(faults("url: 'https://x.example', redis: 'redis://r'")).toEqual([
    "routes[0].to.redis: unknown setting here (it belongs to another kind of destination)",
  ]);
  expect(faults("url: ftp://x")).toEqual(["routes[0].to.url: is not an http or https URL"]);
  expect(
    faults(
      `queue: q, ${redis}, jobOptions: { jobId: x, attempts: 0, backoff: { type: quick, delay: 1s } }`,
    ),
  ).toEqual([
    expect.stringMatching(/^routes\[0\]\.to\.jobOptions\.jobId: unknown setting/),
    "routes[0].to.jobOptions.attempts: must be at least 1",
    "routes[0].to.jobOptions.backoff.type: must be one of fixed, exponential",
  ]);
  expect(faults("stream: s, redis: 'redis://a,b'")).toEqual([
    expect.stringMatching(/^routes\[0\]\.to\.redis: is not a Redis URL/),
  ]);
  expect(faults("stream: s, redis: '${R}'", { R: "http://secret-host" }).join()).toMatch(
    /is not a Redis URL/,
  );
  expect(faults("stream: s, redis: '${R}'", { R: "http://secret-host" }).join()).not.toContain(
    "secret-host",
  );
  expect(faults(`stream: s, ${redis}, passSignature: true`)).toEqual([]);
  expect(
    faultsOf(
      `routes: [{ name: r, payload: enriched, to: { stream: s, ${redis}, passSignature: true } }]`,
    ),
  ).toHaveLength(1);
});

test("a URL signs in one way, and only a route's URL signs as Meta does", () => {
  const url = "url: 'https://x.example'";
  const signature = "signature: { preset: meta, secret: '4c6f6e6720616e642072616e646f6d21' }";
  const beside = (key: string) =>
    `routes[0].to.signature: is given beside ${key}; give one of the two`;
  expect(faults(`${url}, ${signature}`)).toEqual([]);
  expect(faults(`${url}, ${signature}, secret: whsec_aGVsbG8=`)).toEqual([beside("secret")]);
  expect(faults(`${url}, ${signature}, secrets: [a], passSignature: true`)).toEqual([
    beside("secrets"),
    beside("passSignature"),
  ]);
  expect(faults(`${url}, signature: { preset: stripe }`)).toEqual([
    "routes[0].to.signature.secret: is missing",
    "routes[0].to.signature.preset: must be meta",
  ]);
  expect(faults(`${url}, headers: { X-Hub-Signature-256: x }`)).toEqual([
    "routes[0].to.headers.X-Hub-Signature-256: is set by the relay itself",
  ]);
  expect(faults(`queue: q, ${redis}, ${signature}`)).toEqual([
    "routes[0].to.signature: unknown setting here (it belongs to another kind of destination)",
  ]);
  const warned = warnings(
    parseSettings(withTo(`${url}, signature: { preset: meta, secret: short }`), "f", {}),
  );
  expect(warned.map(({ path }) => path).filter((path) => path.startsWith("routes[0]"))).toEqual([
    "routes[0].to.signature.secret",
  ]);
});

test("a variable alone becomes the number or boolean that a queue's setting is", () => {
  const env = { N: "7", B: "true", C: "100" };
  const to =
    "queue: q, redis: 'redis://r', concurrency: '${N}', jobOptions: { attempts: '${N}', lifo: '${B}', removeOnFail: '${C}', removeOnComplete: '${B}' }";
  expect(toOf(to, env)).toMatchObject({
    concurrency: 7,
    jobOptions: { attempts: 7, lifo: true, removeOnFail: 100, removeOnComplete: true },
  });
  expect(toOf(`stream: '\${N}', ${redis}, maxLength: '\${C}'`, env)).toMatchObject({
    stream: "7",
    maxLength: 100,
  });
});

test("allows private addresses, and warns about unencrypted public Redis and unbounded streams", () => {
  const warned = (to: string) =>
    warnings(parseSettings(withTo(to), "f", {}))
      .map(({ path }) => path)
      .filter((path) => path.startsWith("routes[0]"));
  expect(warned("queue: q, redis: 'redis://10.0.0.5'")).toEqual([]);
  expect(warned("queue: q, redis: 'redis://redis:6379'")).toEqual([]);
  expect(warned("queue: q, redis: 'rediss://redis.example'")).toEqual([]);
  expect(warned("queue: q, redis: 'redis://redis.example'")).toEqual(["routes[0].to.redis"]);
  expect(warned("stream: s, redis: 'redis://localhost'")).toEqual(["routes[0].to.stream"]);
  expect(warned("stream: s, redis: 'redis://localhost', maxLength: 10")).toEqual([]);
});

test("printing shows neither host nor password, and units as they are written", () => {
  const to =
    "queue: q, redis: 'redis://user:the-password@the-host', timeout: 90s, jobOptions: { delay: 5s, removeOnComplete: { age: 36h } }";
  const shown = printSettings(parseSettings(withTo(to), "f", {}));
  expect(shown).not.toMatch(/the-password|the-host/);
  expect(shown).toMatch(/redis: "\[secret [0-9a-f]{12}\]"/);
  for (const line of ["timeout: 90s", "delay: 5s", "age: 36h", "longest: 30s"])
    expect(shown).toContain(line);
});
