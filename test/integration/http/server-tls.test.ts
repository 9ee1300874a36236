import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { Agent as HttpAgent } from "node:http";
import { Agent, request } from "node:https";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { expect, onTestFinished, test } from "vitest";
import { makeRelayHere, type RelayHere } from "../../harness/relay-here.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { freePort } from "../../setup/free-port.ts";
import { doctorOn, jsonOf, runOn } from "../cli/run-cli.ts";
import { selfSigned } from "../url-destination/self-signed.ts";

type Pair = ReturnType<typeof selfSigned>;
const [first, renewed, client, other] = ["first", "renewed", "client", "other"].map((subject) =>
  selfSigned(subject),
) as [Pair, Pair, Pair, Pair];

const files = { cert: "${file:cert.pem}", key: "${file:key.pem}" };
const mutual = { ...files, ca: "${file:ca.pem}" };

function writeTls(
  { folder }: Pick<RelayHere, "folder">,
  { cert, key }: Pair,
  authorities: readonly Pair[] = [client],
): void {
  writeFileSync(join(folder, "cert.pem"), cert);
  writeFileSync(join(folder, "key.pem"), key);
  writeFileSync(join(folder, "ca.pem"), authorities.map((pair) => pair.cert).join(""));
}

async function startTls(server: object, authorities?: readonly Pair[]) {
  const relay = await makeRelayHere({ settings: { server } });
  writeTls(relay, first, authorities);
  await relay.start();
  return relay;
}

interface Asked {
  readonly status: number;
  readonly cookie: string | undefined;
  readonly localPort: number | undefined;
  readonly isServedBy: (pair: Pair) => boolean;
}

function ask(port: number, path: string, options: object = {}, body?: string): Promise<Asked> {
  return new Promise((resolve, reject) => {
    const sent = request(
      {
        host: "127.0.0.1",
        port,
        path,
        agent: new Agent(),
        ca: [first.cert, renewed.cert],
        ...options,
      },
      (response) => {
        const socket = response.socket as TLSSocket;
        const served = socket.getPeerX509Certificate()?.toString();
        const { localPort } = socket;
        response.resume().once("end", () =>
          resolve({
            status: response.statusCode ?? 0,
            cookie: response.headers["set-cookie"]?.[0],
            localPort,
            isServedBy: ({ cert }) => served?.replaceAll("\n", "") === cert.replaceAll("\n", ""),
          }),
        );
      },
    );
    sent.on("error", reject).end(body);
  });
}

test("takes clients with a certificate of server.tls.ca only", async () => {
  const relay = await startTls({ tls: mutual });
  expect(await ask(relay.port, "/healthz", client)).toMatchObject({ status: 200 });
  await expect(ask(relay.port, "/healthz")).rejects.toThrow();
  await expect(ask(relay.port, "/healthz", other)).rejects.toThrow();
  await expect(
    ask(relay.port, "/webhooks/main", { ...other, method: "POST" }, "{}"),
  ).rejects.toThrow();
  await expect(
    ask(relay.port, "/healthz", { agent: new HttpAgent(), protocol: "http:" }),
  ).rejects.toThrow();
  expect(
    await ask(relay.port, "/webhooks/main", { ...client, method: "POST" }, "{}"),
  ).toMatchObject({ status: 401 });
});

test("a reload takes a renewed certificate and other authorities; open connections stay", async () => {
  const relay = await startTls({ tls: mutual });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => agent.destroy());
  const before = await ask(relay.port, "/healthz", { ...client, agent });
  expect([before.isServedBy(first), before.isServedBy(renewed)]).toEqual([true, false]);

  writeTls(relay, renewed, [other]);
  await relay.reload();
  expect(relay.log().find(({ msg }) => msg === "settings reloaded")).toMatchObject({
    changed: ["server.tls.ca", "server.tls.cert", "server.tls.key"],
    needRestart: [],
  });
  const same = await ask(relay.port, "/healthz", { ...client, agent });
  expect([same.status, same.localPort]).toEqual([200, before.localPort]);
  expect((await ask(relay.port, "/healthz", other)).isServedBy(renewed)).toBe(true);
  await expect(ask(relay.port, "/healthz", client)).rejects.toThrow();
});

test("to begin or end TLS or client certificates, the port needs a restart", async () => {
  const relay = await startTls({ tls: mutual });
  for (const [tls, paths] of [
    [files, ["server.tls.ca", "server.tls.cert", "server.tls.key"]],
    [undefined, ["server.tls"]],
  ] as const) {
    writeTls(relay, renewed);
    relay.writeSettings({ server: { tls } });
    await relay.reload();
    expect(relay.log().findLast(({ msg }) => msg === "settings reloaded")).toMatchObject({
      needRestart: paths,
    });
    expect((await ask(relay.port, "/healthz", client)).isServedBy(first)).toBe(true);
    await expect(ask(relay.port, "/healthz")).rejects.toThrow();
  }
});

test("commands reach the relay with its own certificate", async () => {
  const relay = await startTls({ tls: mutual }, [client, first]);
  expect((await runOn(relay, "healthcheck")).out).toBe(
    `alive at https://127.0.0.1:${relay.port}\n`,
  );
  expect((await runOn(relay, "trigger", "message.received")).code).toBe(0);
  expect(jsonOf(await runOn(relay, "events", "list", "--json"))).toMatchObject({
    data: [{ event: "message.received" }],
  });
  expect((await runOn(relay, "console", "--no-open")).out).toContain(
    `https://127.0.0.1:${relay.port}/console/#code=`,
  );
  const { checks } = await doctorOn(relay, "--offline");
  for (const check of ["relay", "attention", "certificate"])
    expect([check, checks.find((each) => each.check === check)?.level]).toEqual([
      check,
      check === "certificate" ? "warn" : "ok",
    ]);

  writeTls(relay, other);
  await relay.reload();
  expect((await runOn(relay, "reload")).err).toContain("does its tls.ca accept that?");
});

test("a command refuses another certificate than that of the settings", async () => {
  const relay = await startTls({ tls: files });
  writeTls(relay, renewed);
  const refused = await runOn(relay, "reload");
  expect([refused.code, refused.err]).toEqual([
    1,
    expect.stringContaining("if you renewed it, send SIGHUP to the relay"),
  ]);
  await relay.reload();
  expect((await runOn(relay, "reload")).out).toBe("settings reloaded; nothing changed\n");
});

test("server.control has TLS of its own", async () => {
  const port = await freePort();
  const relay = await startTls({ control: { port, tls: files } });
  expect(
    await ask(port, "/v1/events", { headers: { authorization: `Bearer ${relayToken}` } }),
  ).toMatchObject({ status: 200 });
  expect((await fetch(`${relay.url}/healthz`)).status).toBe(200);
  expect((await runOn(relay, "reload")).out).toBe("settings reloaded; nothing changed\n");
  writeTls(relay, renewed);
  await relay.reload();
  expect((await ask(port, "/healthz")).isServedBy(renewed)).toBe(true);
});

test("stopping does not wait for a connection without a request", async () => {
  const relay = await startTls({ tls: files, shutdownTimeout: "10m" });
  const silent = connect({ host: "127.0.0.1", port: relay.port, ca: first.cert });
  onTestFinished(() => void silent.destroy());
  silent.on("error", () => {});
  await once(silent, "secureConnect");
  await relay.stop();
  expect(relay.log().at(-1)).toMatchObject({ msg: "stopped" });
});
