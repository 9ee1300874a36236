import { createHmac } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { appSecret, metaChange, metaStatus, postMeta } from "../../harness/meta-posts.ts";
import { codeBlocks, readPage } from "../../harness/pages.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { until } from "../../harness/until.ts";
import { doctorOn } from "../cli/run-cli.ts";
import { startHttp } from "../url-destination/downstream.ts";

const page = readPage("docs/how-to/one-number-many-consumers.md");

/** What the operator of each consumer knows. */
const variables: Readonly<Record<string, string>> = {
  META_VERIFY_TOKEN: "a-verify-token",
  META_APP_SECRET: appSecret,
  CHATWOOT_SECRET: "chatwoot-app-secret-0123",
  CHATWOOT_TOKEN: "chatwoot-verify-token",
  N8N_SECRET: "n8n-client-secret-01234",
  N8N_NODE: "n8n-node-id",
  TYPEBOT_SECRET: "typebot-app-secret-01234",
  TYPEBOT_TOKEN: "typebot-verify-token",
  ORDERS_SECRET: `whsec_${Buffer.alloc(32, 9).toString("base64")}`,
};

/** The settings of the page, with its destinations at `origin`. */
function settingsOf(origin: string, values: Readonly<Record<string, string>>) {
  const [block = ""] = codeBlocks(page, "yaml");
  const text = block
    .replaceAll(/https:\/\/[\w.]+\.example/g, origin)
    .replaceAll(/\$\{(\w+)\}/g, (_, name: string) => String(values[name]));
  const { sources, routes } = parse(text) as {
    sources: object;
    routes: { name: string; to: Record<string, unknown> }[];
  };
  return {
    sources,
    routes: routes.map((route) => ({ ...route, to: { allowPrivate: true, ...route.to } })),
  };
}

const signatureOf = (secret: string | undefined, body: Buffer) =>
  `sha256=${createHmac("sha256", String(secret)).update(body).digest("hex")}`;

const person = { profile: { name: "Ana" }, wa_id: "16505551234" };
/** A message and a status of two people. */
const change = metaChange({
  contacts: [{ profile: { name: "Eva" }, wa_id: "16505550000" }, person],
  messages: [
    {
      from: person.wa_id,
      id: "wamid.1",
      timestamp: "1750263774",
      type: "text",
      text: { body: "¡Hola! 👋" },
    },
  ],
  statuses: [metaStatus("wamid.2", "sent", { recipient_id: "16505550000" })],
});

/** What a consumer reads: of Meta's body the first contact, as most do. */
function textsIn(body: Buffer, name: string): string {
  const { entry, data } = JSON.parse(body.toString());
  const { messages, statuses, contacts } = entry?.[0].changes[0].value ?? {};
  const [item] = name === "orders" ? [data.raw] : (statuses ?? messages);
  if (item.status !== undefined) return item.status;
  return `${contacts === undefined ? person.profile.name : contacts[0].profile.name} ${item.text.body}`;
}

test("the consumers of docs/how-to/one-number-many-consumers.md get their events, each signed for it", async () => {
  const typebotTokens = new Set([variables["TYPEBOT_TOKEN"]]);
  const got: Record<string, string[]> = { chatwoot: [], n8n: [], typebot: [], orders: [] };
  const consumers = [
    { name: "chatwoot", path: "/webhooks/whatsapp/+15550001111", refusal: [401, ""] as const },
    {
      name: "n8n",
      path: "/webhook/9b1f",
      refusal: [200, '{"message":"Webhook call received"}'] as const,
    },
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
        name === "typebot"
          ? typebotTokens.delete(token)
          : token === variables[name === "n8n" ? "N8N_NODE" : "CHATWOOT_TOKEN"];
      if (isKnown) response.end(query.get("hub.challenge"));
      else refuse();
      return;
    }
    if (name === "orders")
      new Webhook(String(variables["ORDERS_SECRET"])).verify(
        body,
        request.headers as Record<string, string>,
      );
    else if (
      request.headers["x-hub-signature-256"] !==
      signatureOf(variables[`${name.toUpperCase()}_SECRET`], body)
    ) {
      refuse();
      return;
    }
    got[name]?.push(`${request.headers["x-wamid-relay-event"]} ${textsIn(body, name)}`);
    response.end('{"message":"Workflow was started"}');
  });
  const { origin } = new URL(server.url);

  const relay = await startRelayHere({
    settings: settingsOf(origin, { ...variables, N8N_SECRET: "a-wrong-secret-0123456789" }),
  });
  const doctor = async () =>
    (await doctorOn(relay)).said("handshake").map((line) => line.replace(/^ok (.*) on \S+$/, "$1"));
  for (const _ of [1, 2])
    expect(await doctor()).toEqual(["chatwoot: done", "n8n: done", "typebot: done"]);

  const posted = await postMeta(relay, change);
  expect(await posted.json()).toMatchObject({ events: 2 });
  const rejected = async () =>
    ((await relay.ask("/v1/deliveries?cause=rejected")).body as { data: { route: string }[] }).data;
  await until("n8n rejected it", async () => (await rejected()).length === 1);
  const message = "message.received Ana ¡Hola! 👋";
  const all = {
    chatwoot: [message, "message.status sent"],
    n8n: [],
    typebot: [message],
    orders: [message, "message.status sent"],
  };
  const sorted = () =>
    Object.fromEntries(Object.entries(got).map(([name, events]) => [name, events.toSorted()]));
  await until("the others got theirs", () => JSON.stringify(sorted()) === JSON.stringify(all));

  relay.writeSettings(settingsOf(origin, variables));
  await relay.reload();
  await relay.ask("/v1/replay", {
    method: "POST",
    body: { states: ["waiting"], cause: "rejected" },
  });
  await until(
    "n8n got it",
    () => JSON.stringify(sorted()) === JSON.stringify({ ...all, n8n: [message] }),
  );
});
