import { createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { asciiBody } from "../../../src/deliver/destinations/url.ts";
import { attempt, delivery, destinationTo } from "./attempt.ts";
import { startHttp } from "./downstream.ts";

const signedWith = (secret: string) => ({ signature: { preset: "meta", secret } });

test.each([
  [
    "test_app_secret",
    '{"object":"whatsapp_business_account","entry":[]}',
    "dec6a680679a968e7e0319355b23599cbfc54502c0784668e9618baa0c633756",
  ],
  [
    "test_app_secret",
    '{"object": "whatsapp_business_account", "entry": []}',
    "56cbbaf4961c6cfdae48b7f116c047e5eb513d2c931baae63a2bc1afd26f803a",
  ],
  [
    "otro_secreto",
    '{"object":"whatsapp_business_account","entry":[]}',
    "769b03d8c2ae6498f2d1e1f7299c0ba55448c69d741e7b0bb243d852d8a8d8c7",
  ],
])("signs a body as Meta does: %s %s", async (secret, body, hex) => {
  const downstream = await startHttp((_request, response) => response.end());
  await attempt(destinationTo(downstream.url, signedWith(secret)), { body: Buffer.from(body) });
  expect(downstream.seen[0]?.headers["x-hub-signature-256"]).toBe(`sha256=${hex}`);
});

test("every attempt and replay sends the same bytes in ASCII, whole, with a signature over exactly them", async () => {
  const downstream = await startHttp((_request, response) =>
    response.writeHead(302, { location: "/elsewhere" }).end(),
  );
  const destination = destinationTo(`${downstream.url}/+15550001111`, signedWith("app secret ñ"));
  const body = Buffer.from('{"text":"¡Hola, 👋\\u00e4 \\/ \u2028!","n":1.0}');
  await attempt(destination, { body, contentType: "text/json; charset=utf-8" });
  await attempt(destination, { body, attempt: 2, replays: 1 });
  for (const request of downstream.seen) {
    expect(request.path).toBe("/hook/+15550001111");
    expect(request.body.toString("latin1")).toBe(
      '{"text":"\\u00a1Hola, \\ud83d\\udc4b\\u00e4 \\/ \\u2028!","n":1.0}',
    );
    const digest = createHmac("sha256", Buffer.from("app secret ñ", "utf8"))
      .update(request.body)
      .digest("hex");
    expect(request.headers).toMatchObject({
      "x-hub-signature-256": `sha256=${digest}`,
      "content-type": "application/json",
      "content-length": String(request.body.length),
      "webhook-id": delivery.id,
    });
    expect(request.headers).not.toHaveProperty("transfer-encoding");
    expect(request.headers).not.toHaveProperty("webhook-signature");
  }
  expect(downstream.seen).toHaveLength(2);
});

test("any JSON keeps its value in ASCII, and bytes that are ASCII or no JSON stay unchanged", () => {
  fc.assert(
    fc.property(fc.json({ stringUnit: "binary" }), (json) => {
      const body = Buffer.from(json.toWellFormed());
      const ascii = asciiBody(body);
      expect(ascii.every((byte) => byte < 0x80)).toBe(true);
      expect(JSON.parse(ascii.toString())).toEqual(JSON.parse(body.toString()));
    }),
  );
  for (const body of [
    Buffer.from('{"a":"\\u00E4"}'),
    Buffer.from("ñ is not JSON"),
    Buffer.from([0x22, 0xff, 0x22]),
  ]) {
    expect(asciiBody(body)).toBe(body);
  }
});
