import { createHmac } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { WhatsAppAPI } from "whatsapp-api-js/middleware/node-http";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";

const appSecret = "the secret of the app behind";
const webhookVerifyToken = "its verify token";
const source = { format: "meta", signature: { secrets: ["an app secret of Meta"] } };

/** An app as the SDK's readme has it. It escapes a body before it verifies the signature, and needs `content-length`. */
async function openApp() {
  const app = new WhatsAppAPI({ token: "none", v: "v21.0", appSecret, webhookVerifyToken });
  const got: string[] = [];
  app.on.message = ({ phoneID, from, name, message }) => {
    got.push([phoneID, from, name, message.type === "text" ? message.text.body : message.type].join(" "));
  };
  app.on.status = ({ phoneID, phone, status, id }) => void got.push([phoneID, phone, status, id].join(" "));
  const server = createServer(async (request, response) => {
    try {
      if (request.method === "GET") response.end(await app.handle_get(request));
      else response.writeHead(await app.handle_post(request)).end();
    } catch (status) {
      response.writeHead(typeof status === "number" ? status : 500).end();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return { got, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/` };
}

test("an app with a Meta SDK takes the handshake and each item of a batch, and refuses another secret", async () => {
  const app = await openApp();
  const to = (secret: string) => ({ verifyToken: webhookVerifyToken, signature: { preset: "meta", secret } });
  const routes = [
    routeTo(app.url, { name: "app", to: to(appSecret) }),
    routeTo(app.url, { name: "wrong", to: { ...to("another secret of an app"), retry: { schedule: ["0s", "1h"] } } }),
  ];
  const relay = await startRelayHere({ settings: { sources: { wa: source }, routes } });
  const handshake = await relay.ask("/v1/routes/app/handshake", { method: "POST" });
  expect(handshake.body).toMatchObject({ result: "done" });

  const change = (phone: string, value: object) => ({
    field: "messages",
    value: { messaging_product: "whatsapp", metadata: { display_phone_number: "1", phone_number_id: phone }, ...value },
  });
  const contacts = [
    { profile: { name: "José" }, wa_id: "111" },
    { profile: { name: "Łucja 👋" }, wa_id: "222" },
  ];
  const message = (from: string, body: string) => ({ from, id: `wamid.${from}`, timestamp: "1750263774", type: "text", text: { body } });
  const status = (id: string, word: string) => ({ id, status: word, timestamp: "1750263773", recipient_id: "111" });
  const changes = [
    change("10", { contacts, messages: [message("222", "¿Qué tal? 🎉 / <b>"), message("111", "Grüße")] }),
    change("20", { statuses: [status("wamid.a", "sent"), status("wamid.a", "delivered")] }),
  ];
  // As bytes in UTF-8, which some senders of Meta's format write.
  const body = Buffer.from(JSON.stringify({ object: "whatsapp_business_account", entry: [{ id: "1", changes }] }));
  const signature = `sha256=${createHmac("sha256", source.signature.secrets[0] as string)
    .update(body)
    .digest("hex")}`;
  const posted = await fetch(`${relay.url}/webhooks/wa`, { method: "POST", headers: { "x-hub-signature-256": signature }, body });
  expect(await posted.json()).toMatchObject({ events: 4 });

  await until("the app got each item", () => app.got.length >= 4);
  expect(app.got.toSorted()).toEqual([
    "10 111 José Grüße",
    "10 222 Łucja 👋 ¿Qué tal? 🎉 / <b>",
    "20 111 delivered wamid.a",
    "20 111 sent wamid.a",
  ]);
  const refused = async () => ((await relay.ask("/v1/deliveries?route=wrong&cause=401")).body as { data: unknown[] }).data.length;
  // The second status is held behind the first.
  await until("the other secret is refused", async () => (await refused()) === 3);
  expect(app.got).toHaveLength(4);
});
