import { createHmac } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { expect, test } from "vitest";
import type { SignatureSettings } from "../../../../src/model/signature.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";
import { until } from "../../../harness/until.ts";
import { type SeenRequest, startTestServer } from "../test-server.ts";
import { createStage, secret } from "./stage.ts";

/** By hand, so that sandbox and test cannot share a mistake. */
const mac = (key: string | Buffer, content: string | Buffer, encoding: "hex" | "base64", algorithm = "sha256") =>
  createHmac(algorithm, key).update(content).digest(encoding);
const text = (headers: IncomingHttpHeaders, name: string): string => {
  const value = headers[name];
  if (typeof value !== "string") throw new Error(`no header ${name}`);
  return value;
};
const seconds = (value: string): string => {
  expect(Math.abs(Number(value) - Date.now() / 1000)).toBeLessThan(60);
  return value;
};
const whsec = `whsec_${Buffer.from("24 bytes of a Svix secret").toString("base64")}`;

interface Scheme {
  readonly settings: SignatureSettings;
  readonly secret?: string;
  /** [what came, what is right] */
  readonly check: (request: SeenRequest) => readonly [string, string];
}

const schemes: Record<string, Scheme> = {
  "the default": {
    settings: { service: "acme" },
    check: ({ headers, body }) => [text(headers, "x-acme-signature"), mac(secret, body, "hex")],
  },
  plain: {
    settings: { preset: "plain", header: "x-signature" },
    check: ({ headers, body }) => [text(headers, "x-signature"), mac(secret, body, "hex")],
  },
  meta: {
    settings: { preset: "meta" },
    check: ({ headers, body }) => [text(headers, "x-hub-signature-256"), `sha256=${mac(secret, body, "hex")}`],
  },
  shopify: {
    settings: { preset: "shopify" },
    check: ({ headers, body }) => [text(headers, "x-shopify-hmac-sha256"), mac(secret, body, "base64")],
  },
  stripe: {
    settings: { preset: "stripe" },
    check({ headers, body }) {
      const sent = text(headers, "stripe-signature");
      const time = seconds(/^t=(\d+),/.exec(sent)?.[1] ?? "");
      return [sent, `t=${time},v1=${mac(secret, `${time}.${body}`, "hex")}`];
    },
  },
  slack: {
    settings: { preset: "slack" },
    check({ headers, body }) {
      const time = seconds(text(headers, "x-slack-request-timestamp"));
      return [text(headers, "x-slack-signature"), `v0=${mac(secret, `v0:${time}:${body}`, "hex")}`];
    },
  },
  "standard-webhooks": {
    settings: { preset: "standard-webhooks" },
    secret: whsec,
    check({ headers, body }) {
      const id = text(headers, "webhook-id");
      expect(id).toBe(JSON.parse(body.toString()).id);
      const key = Buffer.from(whsec.slice("whsec_".length), "base64");
      const time = seconds(text(headers, "webhook-timestamp"));
      return [text(headers, "webhook-signature"), `v1,${mac(key, `${id}.${time}.${body}`, "base64")}`];
    },
  },
  hubspot: {
    settings: { preset: "hubspot", publicUrl: "https://relay.example" },
    check({ headers, body, method, url }) {
      const time = text(headers, "x-hubspot-request-timestamp");
      seconds(String(Number(time) / 1000));
      return [text(headers, "x-hubspot-signature-v3"), mac(secret, `${method}https://relay.example${url}${body}${time}`, "base64")];
    },
  },
  "sha512, base64": {
    settings: { service: "acme", algorithm: "sha512", encoding: "base64", prefix: "sha512=" },
    check: ({ headers, body }) => [text(headers, "x-acme-signature"), `sha512=${mac(secret, body, "base64", "sha512")}`],
  },
};

test.each(Object.entries(schemes))("an event is signed as the webhook says: %s", async (_, scheme) => {
  await using server = await startTestServer((response) => response.writeHead(204).end());
  await using stage = createStage();
  stage.addWebhook(`${server.url}/hooks/main?of=acme`, { signature: scheme.settings, secret: scheme.secret ?? secret });
  stage.status("wamid.ñ", "failed", 131026);
  await stage.posting.idle();
  const request = server.seen[0] as SeenRequest;
  expect(request).toMatchObject({ method: "POST", url: "/hooks/main?of=acme" });
  expect(request.headers["content-type"]).toBe("application/json");
  const [came, right] = scheme.check(request);
  expect(came).toBe(right);
  expect(JSON.parse(request.body.toString())).toMatchObject({ data: { wamid: "wamid.ñ", status: "failed", errorCode: 131026 } });
});

test("a rotated secret signs the very next post, retries too; so do a new URL and another way to sign", async () => {
  await using stage = createStage();
  await using server = await startTestServer((response, _, count) => {
    // Before the answer, so that the retry cannot be faster.
    if (count === 1) stage.world.webhooks.put(Object.assign(webhook, { secret: "rotated" }));
    response.writeHead(count === 1 ? 500 : 200).end();
  });
  const webhook = stage.addWebhook(`${server.url}/old`);
  stage.status("wamid.A", "sent");
  await stage.posting.idle();
  Object.assign(webhook, { url: `${server.url}/new` });
  stage.status("wamid.A", "delivered");
  await stage.posting.idle();
  Object.assign(webhook, { signature: { preset: "meta" } });
  stage.status("wamid.A", "read");
  await stage.posting.idle();
  await using elsewhere = await startTestServer((response) => response.end());
  Object.assign(webhook, { url: elsewhere.url });
  stage.status("wamid.B", "sent");
  await stage.posting.idle();
  const [first, second, moved, third] = server.seen as [SeenRequest, SeenRequest, SeenRequest, SeenRequest];
  expect(server.seen).toHaveLength(4);
  expect(elsewhere.seen).toHaveLength(1);
  expect(moved.url).toBe("/new");
  expect(moved.headers["x-acme-signature"]).toBe(mac("rotated", moved.body, "hex"));
  expect(first.headers["x-acme-signature"]).toBe(mac(secret, first.body, "hex"));
  expect(second.headers["x-acme-signature"]).toBe(mac("rotated", second.body, "hex"));
  expect(second.body).toEqual(first.body);
  expect(third.url).toBe("/new");
  expect(third.headers["x-hub-signature-256"]).toBe(`sha256=${mac("rotated", third.body, "hex")}`);
  expect(third.headers).not.toHaveProperty("x-acme-signature");
});

test("each try is signed anew: the timestamp is that of the try", async () => {
  await using server = await startTestServer((response, _, count) => response.writeHead(count === 1 ? 500 : 200).end());
  const baseClock = createManualClock();
  await using stage = createStage({ baseClock, speed: 1 });
  stage.addWebhook(server.url, { signature: { preset: "slack", timestampUnit: "ms" } });
  stage.status("wamid.A", "sent");
  await until("the first answer", () => stage.deliveries()[0]?.tries === 1);
  await baseClock.advance(1_000);
  await stage.posting.idle();
  const [first, second] = server.seen.map(({ headers }) => Number(headers["x-slack-request-timestamp"])) as [number, number];
  expect(second - first).toBe(1_000);
  const { headers, body } = server.seen[1] as SeenRequest;
  expect(headers["x-slack-signature"]).toBe(`v0=${mac(secret, `v0:${second}:${body}`, "hex")}`);
});
