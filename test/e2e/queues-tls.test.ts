// Slow: it starts a Redis with TLS and relays that trust it or not.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis as Client } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { checkRedisDestination } from "../../src/cli/doctor/redis.ts";
import { Secret } from "../../src/model/secret.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { redisForTest } from "../harness/redis-states.ts";
import { makeRelay } from "../harness/relay-process.ts";
import { until } from "../harness/until.ts";
import { selfSigned } from "../integration/url-destination/self-signed.ts";
import { freePort } from "../setup/free-port.ts";

test("rediss: rejects an untrusted certificate, and accepts an authority of NODE_EXTRA_CA_CERTS", async () => {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-tls-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const { key, cert } = selfSigned();
  const [keyFile, certFile] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  writeFileSync(keyFile, key);
  writeFileSync(certFile, cert);
  const port = await freePort();
  const tls = ["--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", certFile, "--tls-auth-clients", "no"];
  const redis = await redisForTest({ args: ["--tls-port", String(port), ...tls] });
  const to = { stream: "history", redis: `rediss://localhost:${port}`, retry: { schedule: ["0s", "100ms"] } };
  const settings = { routes: [{ name: "history", to }] };

  const doubtful = await makeRelay({ settings });
  await doubtful.start();
  await postEvent(doubtful.webhookUrl, createMessages("tls").event());
  await until("an attempt failed", () => doubtful.log().some((line) => line["error"] === "stranger"));
  await doubtful.stop();
  const client = new Client(redis.url);
  onTestFinished(() => client.disconnect());
  expect(await client.exists("history")).toBe(0);

  const trusting = await makeRelay({ settings, env: { NODE_EXTRA_CA_CERTS: certFile } });
  await trusting.start();
  await postEvent(trusting.webhookUrl, createMessages("tls").event());
  await until("the entry came", async () => (await client.xlen("history")) === 1);
});

test("rediss: authority and client certificate of the destination, which doctor uses too", async () => {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-tls-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [server, own] = [selfSigned(), selfSigned()];
  const files = { key: server.key, cert: server.cert, clients: own.cert };
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const file = (name: keyof typeof files) => join(folder, name);
  const port = await freePort();
  const args = [
    "--tls-port",
    String(port),
    "--tls-cert-file",
    file("cert"),
    "--tls-key-file",
    file("key"),
    "--tls-ca-cert-file",
    file("clients"),
  ];
  const redis = await redisForTest({ args: [...args, "--tls-auth-clients", "yes"] });
  const route = (name: string, tls: object) => {
    return { name, to: { stream: name, redis: `rediss://localhost:${port}`, retry: { schedule: ["0s", "100ms"] }, tls } };
  };
  const routes = [route("with", { ca: server.cert, ...own }), route("without", { ca: server.cert })];
  const relay = await makeRelay({ settings: { routes } });
  await relay.start();
  await postEvent(relay.webhookUrl, createMessages("mutual tls").event());
  const client = new Client(redis.url);
  onTestFinished(() => client.disconnect());
  await until("the entry came", async () => (await client.xlen("with")) === 1);
  await until("an attempt failed", () => relay.log().some(({ route: name, outcome }) => name === "without" && outcome === "retry"));
  expect(await client.exists("without")).toBe(0);
  const findings = await Promise.all(
    [{ ca: server.cert, cert: own.cert, key: new Secret(own.key) }, { ca: server.cert }].map((tls) =>
      checkRedisDestination("x", new Secret(`rediss://localhost:${port}`), tls),
    ),
  );
  expect(findings.map(([first]) => first?.level === "fail")).toEqual([false, true]);
});
