// @module-tag slow: it starts a Redis with TLS and relays that trust it or not.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Redis as Client } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { checkRedisDestination } from "../../src/cli/doctor/redis.ts";
import { Secret } from "../../src/model/secret.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { redisForTest } from "../harness/redis-states.ts";
import { startRelayHere } from "../harness/relay-here.ts";
import { startRelay } from "../harness/relay-process.ts";
import { tempFolder } from "../harness/temp-folder.ts";
import { until } from "../harness/until.ts";
import { selfSigned } from "../integration/url-destination/self-signed.ts";
import { freePort } from "../setup/free-port.ts";

/** A Redis with TLS that takes `clients` only, or any. */
async function startTlsRedis(clients?: string) {
  const folder = tempFolder();
  const { key, cert } = selfSigned();
  for (const [name, text] of Object.entries({ key, cert, clients: clients ?? cert }))
    writeFileSync(join(folder, name), text);
  const port = await freePort();
  const files = [
    "--tls-cert-file",
    join(folder, "cert"),
    "--tls-key-file",
    join(folder, "key"),
    "--tls-ca-cert-file",
    join(folder, "clients"),
  ];
  const redis = await redisForTest({
    args: [
      "--tls-port",
      String(port),
      ...files,
      "--tls-auth-clients",
      clients === undefined ? "no" : "yes",
    ],
  });
  const client = new Client(redis.url);
  onTestFinished(() => client.disconnect());
  return { url: `rediss://localhost:${port}`, cert, certFile: join(folder, "cert"), client };
}

test("rediss: rejects an untrusted certificate, and accepts an authority of NODE_EXTRA_CA_CERTS", async () => {
  const { url, certFile, client } = await startTlsRedis();
  const settings = {
    routes: [
      {
        name: "history",
        to: { stream: "history", redis: url, retry: { schedule: ["0s", "100ms"] } },
      },
    ],
  };
  const doubtful = await startRelayHere({ settings });
  await postEvent(doubtful.webhookUrl, createMessages("tls").event());
  await until("an attempt failed", () =>
    doubtful.log().some((line) => line["error"] === "stranger"),
  );
  await doubtful.stop();
  expect(await client.exists("history")).toBe(0);

  const trusting = await startRelay({ settings, env: { NODE_EXTRA_CA_CERTS: certFile } });
  await postEvent(trusting.webhookUrl, createMessages("tls").event());
  await until("the entry came", async () => (await client.xlen("history")) === 1);
});

test("rediss: authority and client certificate of the destination, which doctor uses too", async () => {
  const own = selfSigned();
  const { url, cert, client } = await startTlsRedis(own.cert);
  const route = (name: string, tls: object) => ({
    name,
    to: { stream: name, redis: url, retry: { schedule: ["0s", "100ms"] }, tls },
  });
  const relay = await startRelayHere({
    settings: { routes: [route("with", { ca: cert, ...own }), route("without", { ca: cert })] },
  });
  await postEvent(relay.webhookUrl, createMessages("mutual tls").event());
  await until("the entry came", async () => (await client.xlen("with")) === 1);
  await until("an attempt failed", () =>
    relay.log().some(({ route: name, outcome }) => name === "without" && outcome === "retry"),
  );
  expect(await client.exists("without")).toBe(0);
  const findings = await Promise.all(
    [{ ca: cert, cert: own.cert, key: new Secret(own.key) }, { ca: cert }].map((tls) =>
      checkRedisDestination("x", new Secret(url), tls),
    ),
  );
  expect(findings.map(([first]) => first?.level === "fail")).toEqual([false, true]);
});
