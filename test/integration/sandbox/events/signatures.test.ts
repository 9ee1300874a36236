import { createHmac } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { expect, test } from "vitest";
import type { SignatureSettings } from "../../../../src/model/signature.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";
import { until } from "../../../harness/until.ts";
import { type SeenRequest, startTestServer } from "../test-server.ts";
import { createStage, secret } from "./stage.ts";

/** By hand, so that sandbox and test cannot share a mistake. */
const mac = (key: string | Buffer, content: string | Buffer, encoding: "hex" | "base64") =>
  createHmac("sha256", key).update(content).digest(encoding);
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

/**
 * With all that a signature may contain. The other schemes:
 * test/unit/signature/verify-properties.test.ts.
 */
const schemes: Record<string, Scheme> = {
  "standard-webhooks": {
    settings: { preset: "standard-webhooks" },
    secret: whsec,
    check({ headers, body }) {
      const id = text(headers, "webhook-id");
      expect(id).toBe(JSON.parse(body.toString()).id);
      const key = Buffer.from(whsec.slice("whsec_".length), "base64");
      const time = seconds(text(headers, "webhook-timestamp"));
      return [
        text(headers, "webhook-signature"),
        `v1,${mac(key, `${id}.${time}.${body}`, "base64")}`,
      ];
    },
  },
  hubspot: {
    settings: { preset: "hubspot", publicUrl: "https://relay.example" },
    check({ headers, body, method, path }) {
      const time = text(headers, "x-hubspot-request-timestamp");
      seconds(String(Number(time) / 1000));
      return [
        text(headers, "x-hubspot-signature-v3"),
        mac(secret, `${method}https://relay.example${path}${body}${time}`, "base64"),
      ];
    },
  },
};

test.each(Object.entries(schemes))(
  "an event is signed as the webhook says: %s",
  async (_, scheme) => {
    const server = await startTestServer((response) => response.writeHead(204).end());
    await using stage = createStage();
    stage.addWebhook(`${server.url}/hooks/main?of=acme`, {
      signature: scheme.settings,
      secret: scheme.secret ?? secret,
    });
    stage.status("wamid.ñ", "failed", 131026);
    await stage.posting.idle();
    const request = server.seen[0] as SeenRequest;
    expect(request).toMatchObject({ method: "POST", path: "/hooks/main?of=acme" });
    expect(request.headers["content-type"]).toBe("application/json");
    const [came, right] = scheme.check(request);
    expect(came).toBe(right);
    expect(JSON.parse(request.body.toString())).toMatchObject({
      data: { wamid: "wamid.ñ", status: "failed", errorCode: 131026 },
    });
  },
);

test("a rotated secret signs the very next post, retries too; so do a new URL and another way to sign", async () => {
  await using stage = createStage();
  const server = await startTestServer((response, _, count) => {
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
  const elsewhere = await startTestServer((response) => response.end());
  Object.assign(webhook, { url: elsewhere.url });
  stage.status("wamid.B", "sent");
  await stage.posting.idle();
  const [first, second, moved, third] = server.seen as [
    SeenRequest,
    SeenRequest,
    SeenRequest,
    SeenRequest,
  ];
  expect(server.seen).toHaveLength(4);
  expect(elsewhere.seen).toHaveLength(1);
  expect(moved.path).toBe("/new");
  expect(moved.headers["x-acme-signature"]).toBe(mac("rotated", moved.body, "hex"));
  expect(first.headers["x-acme-signature"]).toBe(mac(secret, first.body, "hex"));
  expect(second.headers["x-acme-signature"]).toBe(mac("rotated", second.body, "hex"));
  expect(second.body).toEqual(first.body);
  expect(third.path).toBe("/new");
  expect(third.headers["x-hub-signature-256"]).toBe(`sha256=${mac("rotated", third.body, "hex")}`);
  expect(third.headers).not.toHaveProperty("x-acme-signature");
});

test("each try is signed anew: the timestamp is that of the try", async () => {
  const server = await startTestServer((response, _, count) =>
    response.writeHead(count === 1 ? 500 : 200).end(),
  );
  const baseClock = createManualClock();
  await using stage = createStage({ baseClock, speed: 1 });
  stage.addWebhook(server.url, { signature: { preset: "slack", timestampUnit: "ms" } });
  stage.status("wamid.A", "sent");
  await until("the first answer", () => stage.deliveries()[0]?.tries === 1);
  await baseClock.advance(1_000);
  await stage.posting.idle();
  const [first, second] = server.seen.map(({ headers }) =>
    Number(headers["x-slack-request-timestamp"]),
  ) as [number, number];
  expect(second - first).toBe(1_000);
  const { headers, body } = server.seen[1] as SeenRequest;
  expect(headers["x-slack-signature"]).toBe(`v0=${mac(secret, `v0:${second}:${body}`, "hex")}`);
});
