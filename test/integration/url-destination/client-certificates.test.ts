import { writeFileSync } from "node:fs";
import { createServer } from "node:https";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { expect, test } from "vitest";
import { checkServices, probe } from "../../../src/cli/doctor/network.ts";
import { assessExpiries } from "../../../src/cli/doctor/settings.ts";
import { Secret } from "../../../src/model/secret.ts";
import { tlsSchema } from "../../../src/net/tls.ts";
import type { ServiceError } from "../../../src/service/errors.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { until } from "../../harness/until.ts";
import { noRetry, openClient } from "../service/client/open-client.ts";
import { attempt, destinationTo, told } from "./attempt.ts";
import { listen } from "./downstream.ts";
import { selfSigned } from "./self-signed.ts";

const [server, client, other] = [selfSigned(), selfSigned(), selfSigned()];

/** A server that takes only `client`. */
async function startMutual() {
  const bodies: string[] = [];
  const options = { ...server, ca: client.cert, requestCert: true, rejectUnauthorized: true };
  const https = createServer(options, (request, response) => {
    expect((request.socket as TLSSocket).authorized).toBe(true);
    request.setEncoding("utf8").on("data", (text: string) => bodies.push(text));
    request.on("end", () => response.end("{}"));
  });
  https.on("tlsClientError", () => {});
  const { port } = await listen(https);
  return { url: `https://localhost:${port}`, bodies };
}

const tlsOf = (pair: typeof client | null, ca = server.cert) => ({ ca, ...pair });
const cases = [
  ["right", tlsOf(client), true],
  ["none", tlsOf(null), false],
  ["another", tlsOf(other), false],
  ["another authority", tlsOf(client, other.cert), false],
] as const;

test.each(cases)("client certificate: %s", async (_name, tls, isTaken) => {
  const { url } = await startMutual();
  expect(told(await attempt(destinationTo(url, { tls })))).toMatch(
    isTaken ? /^200/ : /^failed (tls|reset): /,
  );
  const settings = tlsSchema.parse(tls);
  expect(await probe({ url, allowPrivate: true, tls: settings })).toMatchObject({
    finding: isTaken
      ? { level: "ok" }
      : { level: "fail", todo: expect.stringContaining("set tls of the destination") },
  });
  const { client: service } = openClient(url, { tls: settings, retry: noRetry });
  const answer = await service.me().catch(({ kind }: ServiceError) => kind);
  expect(answer).toEqual(isTaken ? {} : "network");
  const account = {
    baseUrl: url,
    apiKey: new Secret("key"),
    plan: "escala",
    share: 0.5,
    tls: settings,
  };
  expect(await checkServices({ accounts: { main: account } } as never)).toMatchObject([
    { level: isTaken ? "ok" : "fail" },
  ]);
});

test("a reload reads a renewed certificate", async () => {
  const { url, bodies } = await startMutual();
  const tls = { ca: "${file:ca.pem}", cert: "${file:cert.pem}", key: "${file:key.pem}" };
  const relay = await startRelayHere({
    settings: { tracking: { unknown: "forward" }, routes: [] },
  });
  const write = (pair: typeof client) => {
    for (const [name, text] of Object.entries({
      "ca.pem": server.cert,
      "cert.pem": pair.cert,
      "key.pem": pair.key,
    })) {
      writeFileSync(join(relay.folder, name), text);
    }
  };
  write(other);
  relay.writeSettings({
    tracking: { unknown: "forward" },
    routes: [
      { name: "one", to: { url, tls, allowPrivate: true, retry: { schedule: ["0s", "10h"] } } },
    ],
  });
  await relay.reload();
  const messages = createMessages("client certificates");
  await postEvent(relay.webhookUrl, messages.event());
  await until("an attempt failed", () => relay.log().some(({ outcome }) => outcome === "retry"));
  write(client);
  await relay.reload();
  await postEvent(relay.webhookUrl, messages.event());
  await until("one is taken", () => bodies.length > 0);
  const { body } = await relay.ask("/v1/settings");
  expect(JSON.stringify(body)).not.toContain("PRIVATE KEY");
});

test("refuses what is no certificate, a key alone and a key of another certificate", () => {
  const faultOf = (tls: object) =>
    tlsSchema.safeParse(tls).error?.issues.map(({ message }) => message);
  expect(faultOf(client)).toBeUndefined();
  expect(faultOf({ ca: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----" })).toEqual([
    "is not one or more certificates as PEM",
  ]);
  expect(faultOf({ cert: "cert.pem", key: client.key })).toContain(
    "is not one or more certificates as PEM",
  );
  expect(faultOf({ key: client.key })).toEqual(["needs both cert and key, or neither"]);
  expect(faultOf({ cert: client.cert, key: other.key })).toEqual([
    "is not the private key of cert, or is not PEM without a passphrase",
  ]);
});

test("doctor reports certificates that expire within 14 days, or have expired", () => {
  const tls = { ca: server.cert, cert: client.cert, key: new Secret(client.key) };
  const at = (days: number) =>
    assessExpiries(
      {
        server: { control: { tls } },
        accounts: { main: { tls } },
        routes: [],
        sources: {},
      } as never,
      Date.now() + days * 86_400_000,
    );
  // They last a day.
  expect(at(-14)).toEqual([]);
  expect(at(0)).toMatchObject([
    { level: "warn", message: expect.stringMatching(/^server\.control\.tls: expires on \d{4}-/) },
    { level: "warn", message: expect.stringMatching(/^accounts\.main\.tls: expires on \d{4}-/) },
  ]);
  expect(at(2)).toMatchObject(
    Array(2).fill({ level: "fail", message: expect.stringContaining("expired on") }),
  );
});
