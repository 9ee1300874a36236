import { createServer } from "node:http";
import { expect, test } from "vitest";
import { WhatsAppAPI } from "whatsapp-api-js/middleware/node-http";
import { metaChange, metaSource, metaStatus, postMeta } from "../../harness/meta-posts.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { listen } from "../url-destination/downstream.ts";

const appSecret = "the secret of the app behind";
const webhookVerifyToken = "its verify token";

/**
 * An app as the SDK's readme has it. It escapes a body before it verifies the signature, and needs
 * `content-length`.
 */
async function openApp() {
  const app = new WhatsAppAPI({ token: "none", v: "v21.0", appSecret, webhookVerifyToken });
  const got: string[] = [];
  app.on.message = ({ phoneID, from, name, message }) => {
    got.push(
      [phoneID, from, name, message.type === "text" ? message.text.body : message.type].join(" "),
    );
  };
  app.on.status = ({ phoneID, phone, status, id }) =>
    void got.push([phoneID, phone, status, id].join(" "));
  const server = createServer(async (request, response) => {
    try {
      if (request.method === "GET") response.end(await app.handle_get(request));
      else response.writeHead(await app.handle_post(request)).end();
    } catch (status) {
      response.writeHead(typeof status === "number" ? status : 500).end();
    }
  });
  return { got, url: (await listen(server, "127.0.0.1")).url };
}

test("an app with a Meta SDK takes the handshake and each item of a batch, and refuses another secret", async () => {
  const app = await openApp();
  const to = (secret: string) => ({
    verifyToken: webhookVerifyToken,
    signature: { preset: "meta", secret },
  });
  const routes = [
    routeTo(app.url, { name: "app", to: to(appSecret) }),
    routeTo(app.url, {
      name: "wrong",
      to: { ...to("another secret of an app"), retry: { schedule: ["0s", "1h"] } },
    }),
  ];
  const relay = await startRelayHere({ settings: { sources: { wa: metaSource }, routes } });
  const handshake = await relay.ask("/v1/routes/app/handshake", { method: "POST" });
  expect(handshake.body).toMatchObject({ result: "done" });

  const contacts = [
    { profile: { name: "José" }, wa_id: "111" },
    { profile: { name: "Łucja 👋" }, wa_id: "222" },
  ];
  const message = (from: string, body: string) => ({
    from,
    id: `wamid.${from}`,
    timestamp: "1750263774",
    type: "text",
    text: { body },
  });
  const posted = await postMeta(
    relay,
    metaChange(
      { contacts, messages: [message("222", "¿Qué tal? 🎉 / <b>"), message("111", "Grüße")] },
      "10",
    ),
    metaChange(
      { statuses: [metaStatus("wamid.a", "sent"), metaStatus("wamid.a", "delivered")] },
      "20",
    ),
  );
  expect(await posted.json()).toMatchObject({ events: 4 });

  await until("the app got each item", () => app.got.length >= 4);
  expect(app.got.toSorted()).toEqual([
    "10 111 José Grüße",
    "10 222 Łucja 👋 ¿Qué tal? 🎉 / <b>",
    "20 16505551234 delivered wamid.a",
    "20 16505551234 sent wamid.a",
  ]);
  const refused = async () =>
    ((await relay.ask("/v1/deliveries?route=wrong&cause=401")).body as { data: unknown[] }).data
      .length;
  // The second status is held behind the first.
  await until("the other secret is refused", async () => (await refused()) === 3);
  expect(app.got).toHaveLength(4);
});
