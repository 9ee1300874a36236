import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { verify } from "./schemes.ts";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const settings = { preset: "standard-webhooks" } as const;
const body = '{"text":"ñandú"}';

test("verifies what the reference library signs, next to other versions", () => {
  const at = new Date(1_800_000_000_000);
  const signature = new Webhook(secret).sign("msg_1", at, body);
  const old = new Webhook("whsec_b2xkIG9sZCBvbGQ=").sign("msg_1", at, body);
  for (const value of [signature, `${old} ${signature}`, `v1a,${"A".repeat(86)}== ${signature}`]) {
    const headers = {
      "webhook-id": "msg_1",
      "webhook-timestamp": "1800000000",
      "webhook-signature": value,
    };
    const request = {
      method: "POST",
      url: "/",
      headers,
      body: Buffer.from(body),
      nowMs: at.getTime(),
    };
    expect(verify(settings, secret, request)).toMatchObject({ ok: true, headers });
    expect(
      verify(settings, secret, { ...request, headers: { ...headers, "webhook-id": "msg_2" } }),
    ).toEqual({
      ok: false,
      reason: "no-match",
    });
  }
});
