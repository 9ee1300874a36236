import { expect, test } from "vitest";
import { Secret } from "../../../src/model/secret.ts";
import {
  type SignatureSettings,
  signatureAlgorithms,
  signatureEncodings,
} from "../../../src/model/signature.ts";
import { verify } from "./schemes.ts";

const body = '{"id":"e-1","event":"message.status","data":{"text":"ñandú"}}';

// printf '%s' "$body" | openssl dgst -<algorithm> -hmac vector-secret
const opensslVectors = {
  sha1: "648bc68af141facab212d74e72c70aaf676e8d44",
  sha256: "1d2317a3fe31ad8bc7db9ba2cfa42d8a56914ef502200102505aa1fda90570f4",
  sha384:
    "f44a92ccc85bb64ff0a47927af2e9a5b9c427f40fc58926654b372c49fbc07380e04470f3cac39f64f3c61cd4e0de504",
  sha512:
    "82902a47feacd7189e6d9e9db953e361bc5dfa8091385978e0f592053872f058765a7cbdc60c805f5940e93743a87508f463fa776fab923e54c58ba6613a4ebc",
};

test.each(
  signatureAlgorithms.flatMap((algorithm) =>
    signatureEncodings.map((encoding) => [algorithm, encoding] as const),
  ),
)(
  "verifies what openssl signs with %s in %s, bare and after <algorithm>=",
  (algorithm, encoding) => {
    const settings = { service: "Acme", algorithm, encoding };
    const digest = Buffer.from(opensslVectors[algorithm], "hex");
    const request = { method: "POST", url: "/", body: Buffer.from(body), nowMs: 0 };
    for (const value of [digest.toString(encoding), `${algorithm}=${digest.toString(encoding)}`]) {
      const headers = { "x-acme-signature": value };
      const secret = new Secret("vector-secret").fingerprint();
      expect(verify(settings, "vector-secret", { ...request, headers })).toEqual({
        ok: true,
        secret,
        headers,
        digest,
      });
      expect(verify(settings, "vector-secret2", { ...request, headers })).toEqual({
        ok: false,
        reason: "no-match",
      });
    }
  },
);

test("hashes the body's bytes, also when they are not UTF-8", () => {
  // printf '\377\000\376\r\n' | openssl dgst -sha256 -hmac vector-secret
  const headers = {
    "x-acme-signature": "9cfdac2a9d37e078b008228b3a9d278193e833915609a7cb42fc3eb872df934a",
  };
  const verifies = (bytes: number[]) =>
    verify({ service: "acme" }, "vector-secret", {
      method: "POST",
      url: "/",
      headers,
      body: Buffer.from(bytes),
      nowMs: 0,
    }).ok;
  expect(verifies([0xff, 0, 0xfe, 13, 10])).toBe(true);
  expect(verifies([0xfe, 0, 0xff, 13, 10])).toBe(false);
});

interface Vector {
  readonly settings: SignatureSettings;
  readonly secret: string;
  readonly body: string;
  readonly headers: Record<string, string>;
  readonly timestampMs: number;
  readonly url?: string;
}

const slackBody =
  "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";

const families: Record<string, Vector> = {
  // docs.github.com, "Validating webhook deliveries"
  GitHub: {
    settings: { preset: "meta" },
    secret: "It's a Secret to Everybody",
    body: "Hello, World!",
    headers: {
      "x-hub-signature-256":
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
    },
    timestampMs: 0,
  },
  // docs.slack.dev, "Verifying requests from Slack"
  Slack: {
    settings: { preset: "slack" },
    secret: "8f742231b10e8888abcd99yyyzzz85a5",
    body: slackBody,
    headers: {
      "x-slack-request-timestamp": "1531420618",
      "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
    },
    timestampMs: 1531420618_000,
  },
  // printf '1492774577.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_test_secret
  Stripe: {
    settings: { preset: "stripe" },
    secret: "whsec_test_secret",
    body: '{"id":"evt_1"}',
    headers: {
      "stripe-signature":
        "t=1492774577,v1=799c4ba7bb339f3c8601adfd112f0e477c930a268be1243d341abb8286501c2f",
    },
    timestampMs: 1492774577_000,
  },
  // printf '{"id":820982911946154508}' | openssl dgst -sha256 -hmac hush -binary | openssl base64
  // -A
  Shopify: {
    settings: { preset: "shopify" },
    secret: "hush",
    body: '{"id":820982911946154508}',
    headers: { "x-shopify-hmac-sha256": "qBvrsZF7RfB1iS6BX6IHqJTp5L911P7intnPeTPsH0I=" },
    timestampMs: 0,
  },
  // printf 'msg_….1614265330.{"test": 2432232314}' | openssl dgst -sha256 -mac HMAC -macopt
  // hexkey:<base64 -d of the secret> -binary | openssl base64 -A
  "Standard Webhooks": {
    settings: { preset: "standard-webhooks" },
    secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    body: '{"test": 2432232314}',
    headers: {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    },
    timestampMs: 1614265330_000,
  },
  // printf 'POSThttps://relay.example/webhooks/main?x=1{"a":1}1614265330000' | openssl dgst -sha256
  // -hmac hush -binary | openssl base64 -A
  HubSpot: {
    settings: { preset: "hubspot", publicUrl: "https://relay.example" },
    secret: "hush",
    body: '{"a":1}',
    headers: {
      "x-hubspot-request-timestamp": "1614265330000",
      "x-hubspot-signature-v3": "02b5MzqLiOYQxS66Vj3QbckIl+Tpjc2uBaxJuYGP76Y=",
    },
    timestampMs: 1614265330_000,
    url: "/webhooks/main?x=1",
  },
};

test.each(Object.entries(families))(
  "verifies the signature of %s, and keeps its headers",
  (_name, vector) => {
    const headers = { host: "relay.example", cookie: "a=b", ...vector.headers };
    const request = {
      method: "POST",
      url: vector.url ?? "/",
      body: Buffer.from(vector.body),
      headers,
      nowMs: vector.timestampMs,
    };
    expect(verify(vector.settings, vector.secret, request)).toMatchObject({
      ok: true,
      headers: vector.headers,
    });
  },
);
