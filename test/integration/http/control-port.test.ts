import { expect, test } from "vitest";
import { parseSettings } from "../../../src/config/load.ts";
import { askRelay } from "../../harness/ask-relay.ts";
import { postEvent } from "../../harness/post-event.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { makeRelay } from "../../harness/relay-process.ts";
import type { SettingsParts } from "../../harness/relay-settings.ts";
import { freePort } from "../../setup/free-port.ts";
import { startRaw } from "../url-destination/downstream.ts";
import { freshEvent, holdDrain } from "./alive.ts";
import { connectAnswered, requestBytes } from "./raw-client.ts";

async function startSplit(server: SettingsParts = {}) {
  const port = await freePort();
  const relay = await startRelayHere({ settings: { server: { control: { port }, ...server } } });
  return { relay, port, url: `http://127.0.0.1:${port}` };
}

const statusOf = async (url: string, path: string) => (await askRelay(url, path)).status;

test("server.control moves the control API and the metrics; the public port keeps webhooks and health", async () => {
  const { relay, url, port } = await startSplit();
  expect((await postEvent(relay.webhookUrl, freshEvent())).word).toBe("accepted");

  for (const path of ["/v1/events", "/v1/openapi.json", "/v1/listen", "/metrics"]) {
    const hidden = await askRelay(relay.url, path);
    expect([path, hidden.status, hidden.body]).toEqual([
      path,
      404,
      expect.objectContaining({ code: "not_found" }),
    ]);
  }
  expect((await askRelay(relay.url, "/readyz")).body).toEqual({ ready: true, draining: false });
  expect(await statusOf(relay.url, "/healthz")).toBe(200);

  expect((await askRelay(url, "/v1/events")).body).toMatchObject({
    data: [{ event: "contact.updated" }],
  });
  expect(String((await askRelay(url, "/metrics")).body)).toContain(
    'relay_webhook_requests_total{source="main",outcome="accepted"} 1',
  );
  expect((await askRelay(url, "/readyz")).body).toMatchObject({
    ready: true,
    store: "ok",
    alarms: [],
  });
  expect((await postEvent(`${url}/webhooks/main`, freshEvent())).status).toBe(404);
  expect(relay.log().find(({ msg }) => msg === "listening")).toMatchObject({
    port: relay.port,
    control: { host: "127.0.0.1", port },
  });
});

test("stopping closes both ports", async () => {
  const { relay, url } = await startSplit();
  expect(await statusOf(url, "/healthz")).toBe(200);
  await relay.stop();
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
  await expect(fetch(`${relay.url}/healthz`)).rejects.toThrow();
});

test("behind a proxy, a stop ends each connection of server.control with its next answer", async () => {
  const { relay, port } = await startSplit({ trustProxy: ["loopback"] });
  const connection = await connectAnswered(port);
  const goOn = holdDrain();
  const stopped = relay.stop();
  await connection.write(requestBytes({ target: "/healthz", method: "GET" }));
  expect(await connection.answer()).toMatchObject({
    status: 200,
    headers: { connection: "close" },
  });
  goOn();
  await stopped;
});

test("a taken control port is named by its setting", async () => {
  const { port } = await startRaw(() => {});
  const relay = await makeRelay({ settings: { server: { control: { port } } } });
  expect((await relay.startRefused()).code).toBe(1);
  expect(relay.stderr()).toContain(`port ${port} on 127.0.0.1`);
  expect(relay.stderr()).toContain("server.control.port");
});

test("refuses server.port as the control port", () => {
  const load = (server: string) => () => parseSettings(`server: ${server}`, "relay.yaml", {});
  expect(load("{ port: 9000, control: { port: 9000 } }")).toThrow(
    /server\.control\.port: is server\.port too/,
  );
  expect(load("{ control: { port: 8080 } }")).toThrow(/server\.control\.port: is server\.port too/);
  expect(load("{ port: 9000, control: { port: 8080 } }")().server.control).toEqual({
    host: "127.0.0.1",
    port: 8080,
  });
});
