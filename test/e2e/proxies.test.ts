// @module-tag slow: it starts HAProxy, nginx and Caddy, each in front of a relay.
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { startProgram } from "../harness/program.ts";
import { startRelayHere } from "../harness/relay-here.ts";
import { relayToken, webhookSecret } from "../harness/relay-settings.ts";
import { tempFolder } from "../harness/temp-folder.ts";
import { until } from "../harness/until.ts";
import { findProgram } from "../setup/find-program.ts";
import { freePort } from "../setup/free-port.ts";

const folder = new URL("../../deploy/", import.meta.url).pathname;

interface Ports {
  readonly front: number;
  /** Where the proxy offers the control API; `front` itself for some. */
  readonly frontControl: number;
  readonly relay: number;
  readonly control: number;
}

interface Proxy {
  readonly name: string;
  /** The example is for relays with `server.control`. */
  readonly isSplit: boolean;
  /** The example with these ports. `isOpen`: with its commented-out control API. */
  settings(ports: Ports, isOpen: boolean): string;
  readonly args: (file: string, home: string) => string[];
  readonly controlPort: (ports: Ports) => number;
}

const example = (path: string) => readFileSync(join(folder, path), "utf8");
const swap = (text: string, pairs: readonly (readonly [string, string | number])[]) =>
  pairs.reduce((all, [from, to]) => {
    expect(all).toContain(from);
    return all.replaceAll(from, String(to));
  }, text);
/** Opens the last commented-out block. */
const open = (text: string, first: string) => {
  const [before, after] = [text.slice(0, text.indexOf(first)), text.slice(text.indexOf(first))];
  expect(after.startsWith(first)).toBe(true);
  return before + after.replace(/^(\s*)# ?(.*)$/gm, "$1$2").replace(/^# /, "");
};

const [resolvers = "", template = "", controlTemplate = ""] = [
  /^resolvers .*\n(?: .*\n)+/m,
  /server-template .*/,
  /server-template .*:9090.*/,
].map((part) => part.exec(example("haproxy/haproxy.cfg"))?.[0]);

const proxies: readonly Proxy[] = [
  {
    name: "haproxy",
    isSplit: false,
    settings: ({ front, frontControl, relay }) =>
      swap(example("haproxy/haproxy.cfg"), [
        ["bind :8080", `bind 127.0.0.1:${front}`],
        ["bind :9090", `bind 127.0.0.1:${frontControl}`],
        // As its first lines say.
        [resolvers, ""],
        [template, `server receive-1 127.0.0.1:${relay}`],
        // The relay is in this process: a pause of some seconds is no reason to answer 503.
        ["check inter 2s", "check inter 1m"],
      ]),
    args: (file) => ["-db", "-f", file],
    controlPort: ({ frontControl }) => frontControl,
  },
  {
    name: "nginx",
    isSplit: true,
    settings({ front, relay, control }, isOpen) {
      const text = example("nginx/wamid-relay.conf");
      const server = swap(isOpen ? open(text, "# location ~ ^/(v1/|console) {") : text, [
        ["listen 8080", `listen 127.0.0.1:${front}`],
        ["127.0.0.1:8081", `127.0.0.1:${relay}`],
        ["127.0.0.1:9090", `127.0.0.1:${control}`],
      ]);
      const user = process.getuid?.() === 0 ? "user root;\n" : "";
      const places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map((each) => `${each}_temp_path ${each};`)
        .join(" ");
      return `${user}daemon off;\nerror_log stderr;\npid nginx.pid;\nevents {}\nhttp {\naccess_log off;\n${places}\n${server}}\n`;
    },
    args: (file, home) => ["-e", "stderr", "-p", home, "-c", file],
    controlPort: ({ front }) => front,
  },
  {
    name: "caddy",
    isSplit: true,
    settings({ front, relay, control }, isOpen) {
      const text = example("caddy/Caddyfile");
      const opened = isOpen ? open(text, "# @control {") : text;
      const site = swap(opened, [
        ["\n:8080 {", `\nhttp://127.0.0.1:${front} {`],
        ["127.0.0.1:8081", `127.0.0.1:${relay}`],
        ["127.0.0.1:9090", `127.0.0.1:${control}`],
      ]);
      return `{\n\tadmin off\n}\n${site}`;
    },
    args: (file) => ["run", "--adapter", "caddyfile", "--config", file],
    controlPort: ({ front }) => front,
  },
];

/** Starts the relay and the proxy in front of it. */
async function start(proxy: Proxy, isOpen: boolean) {
  const { isSplit } = proxy;
  const control = await freePort();
  const main = { signature: { service: "acme", secrets: [webhookSecret] } };
  const wa = { format: "meta", verifyTokens: [webhookSecret], pathSecrets: [webhookSecret] };
  const relay = await startRelayHere({
    settings: { server: isSplit ? { control: { port: control } } : {}, sources: { main, wa } },
  });
  const ports = {
    front: await freePort(),
    frontControl: await freePort(),
    relay: relay.port,
    control,
  };
  const home = tempFolder();
  const file = join(home, "settings");
  writeFileSync(file, proxy.settings(ports, isOpen));
  const env = { ...process.env, HOME: home, XDG_CONFIG_HOME: home, XDG_DATA_HOME: home };
  const program = startProgram(findProgram(proxy.name), proxy.args(file, home), { env });
  const url = `http://127.0.0.1:${ports.front}`;
  await program.until(
    "it passes requests on",
    async () => (await fetch(`${url}/healthz`).catch(() => null))?.status === 200,
  );
  return { url, port: ports.front, controlUrl: `http://127.0.0.1:${proxy.controlPort(ports)}` };
}

/** The status for a path as it stands; `fetch` would resolve dots. */
async function statusOf(port: number, path: string): Promise<number> {
  const asked = request({
    host: "127.0.0.1",
    port,
    path,
    headers: { authorization: `Bearer ${relayToken}` },
  });
  asked.end();
  const [answer] = (await once(asked, "response")) as [{ statusCode: number; resume(): void }];
  answer.resume();
  return answer.statusCode;
}

const hidden = [
  "/metrics",
  "/v1/events",
  "/v1/openapi.json",
  "/console",
  "/",
  "//v1/events",
  "/%761/events",
];
const disguised = [
  "/webhooks/../v1/events",
  "/webhooks/../metrics",
  "/webhooks/%2e%2e/v1/events",
  "/webhooks/..%2fmetrics",
];

describe.each(proxies)("deploy/$name", (proxy) => {
  test("passes webhooks and health on, and neither the control API nor metrics", async () => {
    const { url, port } = await start(proxy, false);
    const posted = await postEvent(`${url}/webhooks/main`, createMessages(proxy.name).event());
    expect(posted.word).toBe("accepted");
    expect(await statusOf(port, "/readyz")).toBe(200);
    const query = new URLSearchParams({
      "hub.mode": "subscribe",
      "hub.verify_token": webhookSecret,
      "hub.challenge": "1158201444",
    });
    expect(await (await fetch(`${url}/webhooks/wa?${query}`)).text()).toBe("1158201444");
    const batch = JSON.stringify({
      object: "whatsapp_business_account",
      entry: [],
      pad: "x".repeat(3_000_000),
    });
    expect(
      (await fetch(`${url}/webhooks/wa/${webhookSecret}`, { method: "POST", body: batch })).status,
    ).toBe(200);
    for (const path of [...hidden, ...disguised])
      expect([path, await statusOf(port, path)]).toEqual([
        path,
        expect.toSatisfy((status: number) => status >= 400 && status < 500),
      ]);
  });

  test("with the control API wanted, passes each listened event on while the stream stays open", async () => {
    const { url, controlUrl } = await start(proxy, true);
    const headers = { authorization: `Bearer ${relayToken}` };
    expect((await fetch(`${controlUrl}/v1/events`, { headers })).status).toBe(200);
    expect((await fetch(`${controlUrl}/v1/events`)).status).toBe(401);
    expect((await fetch(`${controlUrl}/metrics`, { headers })).status).toBe(404);
    // The relay's own answer, also where the console is not built.
    expect((await fetch(`${controlUrl}/console`)).headers.get("content-security-policy")).toContain(
      "default-src 'self'",
    );
    // As a browser signs in; the relay compares both headers before it looks at the code.
    const signIn = await fetch(`${controlUrl}/v1/session`, {
      method: "POST",
      headers: { origin: controlUrl, "content-type": "application/json" },
      body: JSON.stringify({ code: "unknown" }),
    });
    expect(signIn.status).toBe(401);
    const stop = new AbortController();
    const stream = await fetch(`${controlUrl}/v1/listen`, { headers, signal: stop.signal });
    let received = "";
    const reading = (async () => {
      for await (const chunk of stream.body as AsyncIterable<Uint8Array>)
        received += Buffer.from(chunk).toString();
    })().catch(() => {});
    const messages = createMessages(`${proxy.name} listens`);
    for (let count = 0; count < 3; count += 1) {
      const event = messages.event();
      expect((await postEvent(`${url}/webhooks/main`, event)).word).toBe("accepted");
      await until("the event arrives", () => received.includes(event.id));
    }
    stop.abort();
    await reading;
  });
});

test("HAProxy's last section reaches the port of server.control", async () => {
  const [haproxy] = proxies as [Proxy, ...Proxy[]];
  const settings: Proxy["settings"] = (ports, isOpen) => {
    const text = open(haproxy.settings(ports, isOpen), "# backend control-api");
    return swap(text, [
      ["default_backend receive\n\nbackend", "default_backend control-api\n\nbackend"],
      [controlTemplate, `server receive-1 127.0.0.1:${ports.control}`],
    ]);
  };
  const { controlUrl } = await start({ ...haproxy, isSplit: true, settings }, true);
  const headers = { authorization: `Bearer ${relayToken}` };
  expect((await fetch(`${controlUrl}/v1/events`, { headers })).status).toBe(200);
});

test("HAProxy's example sends small chunks at once", () => {
  expect(example("haproxy/haproxy.cfg")).toMatch(/^ {4}option http-no-delay$/m);
});
