import { createHmac, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import type { IncomingHttpHeaders } from "node:http";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { postEvent } from "../../harness/post-event.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { until } from "../../harness/until.ts";
import { runOn } from "../cli/run-cli.ts";
import { startHttp } from "../url-destination/downstream.ts";

const page = readFileSync(new URL("../../../docs/how-to/one-number-many-consumers.md", import.meta.url), "utf8");

/** What the operator of each consumer knows. */
const variables: Readonly<Record<string, string>> = {
  CHATWOOT_SECRET: "chatwoot-app-secret-0123",
  CHATWOOT_TOKEN: "chatwoot-verify-token",
  N8N_SECRET: "n8n-client-secret-01234",
  N8N_NODE: "n8n-node-id",
  TYPEBOT_SECRET: "typebot-app-secret-01234",
  TYPEBOT_TOKEN: "typebot-verify-token",
  ORDERS_SECRET: `whsec_${Buffer.alloc(32, 9).toString("base64")}`,
};

/** The routes of the page, to `origin`. */
function routesOf(origin: string, values: Readonly<Record<string, string>>): { name: string; to: Record<string, unknown> }[] {
  const [, block = ""] = /```yaml\n([\s\S]*?)```/.exec(page) ?? [];
  const text = block.replaceAll(/https:\/\/[\w.]+\.example/g, origin).replaceAll(/\$\{(\w+)\}/g, (_, name: string) => String(values[name]));
  const { routes } = parse(text) as { routes: { name: string; to: Record<string, unknown> }[] };
  return routes.map((route) => ({ ...route, to: { allowPrivate: true, ...route.to } }));
}

const isSigned = (secret: string | undefined, headers: IncomingHttpHeaders, body: Buffer) =>
  headers["x-hub-signature-256"] === `sha256=${createHmac("sha256", String(secret)).update(body).digest("hex")}`;

test("the consumers of docs/how-to/one-number-many-consumers.md get their events, each signed for it", async () => {
  const typebotTokens = new Set([variables["TYPEBOT_TOKEN"]]);
  const got: Record<string, string[]> = { chatwoot: [], n8n: [], typebot: [], orders: [] };
  const consumers = [
    { name: "chatwoot", path: "/webhooks/whatsapp/+15550001111", refusal: [401, ""] as const },
    { name: "n8n", path: "/webhook/9b1f", refusal: [200, '{"message":"Webhook call received"}'] as const },
    { name: "typebot", path: "/api/v1/workspaces/", refusal: [401, "no"] as const },
    { name: "orders", path: "/whatsapp", refusal: [401, ""] as const },
  ];
  const server = await startHttp((request, response) => {
    const consumer = consumers.find(({ path }) => request.url?.startsWith(path));
    // Doctor's HEAD.
    if (consumer === undefined) {
      response.writeHead(404).end();
      return;
    }
    const { name, refusal } = consumer;
    const refuse = () => response.writeHead(refusal[0]).end(refusal[1]);
    const query = new URL(request.url ?? "", "http://app").searchParams;
    const token = query.get("hub.verify_token") ?? "";
    const body = server.seen.at(-1)?.body ?? Buffer.alloc(0);
    if (request.method === "GET") {
      const isKnown =
        name === "typebot" ? typebotTokens.delete(token) : token === variables[name === "n8n" ? "N8N_NODE" : "CHATWOOT_TOKEN"];
      if (isKnown) response.end(query.get("hub.challenge"));
      else refuse();
      return;
    }
    if (name === "orders") new Webhook(String(variables["ORDERS_SECRET"])).verify(body, request.headers as Record<string, string>);
    else if (!isSigned(variables[`${name.toUpperCase()}_SECRET`], request.headers, body)) {
      refuse();
      return;
    }
    got[name]?.push((JSON.parse(body.toString()) as { event: string }).event);
    response.end('{"message":"Workflow was started"}');
  });
  const { origin } = new URL(server.url);

  const routes = routesOf(origin, { ...variables, N8N_SECRET: "a-wrong-secret-0123456789" });
  const relay = await startRelayHere({ settings: { tracking: { unknown: "forward" }, routes } });
  const doctor = async () => {
    const { checks } = JSON.parse((await runOn(relay, "doctor", "--json")).out) as { checks: { check: string; message: string }[] };
    return checks.filter(({ check }) => check === "handshake").map(({ message }) => message.replace(/ on \S+$/, ""));
  };
  for (const _ of [1, 2]) expect(await doctor()).toEqual(["chatwoot: done", "n8n: done", "typebot: done"]);

  for (const event of ["message.status", "message.received"]) {
    const data = { wamid: `wamid.${event}`, status: "sent", text: "¡Hola! 👋" };
    const body = { id: randomUUID(), event, createdAt: new Date().toISOString(), data };
    expect((await postEvent(relay.webhookUrl, Buffer.from(JSON.stringify(body)))).status).toBe(200);
  }
  const rejected = async () => ((await relay.ask("/v1/deliveries?cause=rejected")).body as { data: { route: string }[] }).data;
  await until("n8n rejected it", async () => (await rejected()).length === 1);
  const both = ["message.received", "message.status"];
  const all = { chatwoot: both, n8n: [], typebot: ["message.received"], orders: both };
  const sorted = () => Object.fromEntries(Object.entries(got).map(([name, events]) => [name, events.toSorted()]));
  await until("the others got theirs", () => JSON.stringify(sorted()) === JSON.stringify(all));

  relay.writeSettings({ tracking: { unknown: "forward" }, routes: routesOf(origin, variables) });
  await relay.reload();
  await relay.ask("/v1/replay", { method: "POST", body: { states: ["waiting"], cause: "rejected" } });
  await until("n8n got it", () => JSON.stringify(sorted()) === JSON.stringify({ ...all, n8n: ["message.received"] }));
});
