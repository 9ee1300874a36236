import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { attempt, delivery, destinationTo, told } from "./attempt.ts";
import { startHttp } from "./downstream.ts";

const secret = `whsec_${Buffer.alloc(24, 7).toString("base64")}`;

test("signs every attempt and replay as the standardwebhooks library expects", async () => {
  const downstream = await startHttp((_request, response) => response.end());
  const destination = destinationTo(downstream.url, { secret, headers: { Authorization: "Bearer abc" } });
  const startedAt = Date.now();
  await attempt(destination, { attempt: 1 });
  await attempt(destination, { attempt: 2, replays: 1, event: "mensaje.leído" });
  const webhook = new Webhook(secret);
  for (const request of downstream.seen) {
    const headers = request.headers as Record<string, string>;
    expect(webhook.verify(request.body, headers)).toEqual(JSON.parse(delivery.body.toString()));
    expect(() => webhook.verify(`${request.body} `, headers)).toThrow();
    expect(headers).toMatchObject({ "webhook-id": delivery.id, authorization: "Bearer abc", "content-type": "application/json" });
    expect(headers["user-agent"]).toMatch(/^wamid-relay\/\d+\.\d+\.\d+/);
    const sentAt = Number(headers["webhook-timestamp"]);
    expect([sentAt >= Math.floor(startedAt / 1000), sentAt <= Date.now() / 1000]).toEqual([true, true]);
  }
  const [first, second] = downstream.seen.map(({ headers }) => headers);
  expect(first).toMatchObject({ "webhook-attempt": "1", "x-wamid-relay-event": "message.status" });
  expect(first).not.toHaveProperty("webhook-replay");
  expect(second).toMatchObject({ "webhook-attempt": "2", "webhook-replay": "true", "x-wamid-relay-event": "mensaje.le%C3%ADdo" });
});

test("passes latin1 header values, and fails only the attempt for an invalid one", async () => {
  const downstream = await startHttp((_request, response) => response.end());
  const destination = destinationTo(downstream.url);
  await attempt(destination, { passHeaders: { "x-acme-signature": "caf\xe9" } });
  expect(downstream.seen[0]?.headers["x-acme-signature"]).toBe("caf\xe9");
  expect(told(await attempt(destination, { contentType: "text/plain\r\nx-evil: 1" }))).toMatch(/^failed protocol: /);
  expect(told(await attempt(destination))).toBe("200");
  expect(downstream.seen).toHaveLength(2);
});
