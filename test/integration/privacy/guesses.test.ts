import { expect, test } from "vitest";
import type { Wamid } from "../../../src/model/ids.ts";
import { wamidOf } from "../../contract/search-contract.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { metric } from "../http/alive.ts";

const phone = "5491155550100";
const reader = { name: "reader", token: "a-token-that-reads-only", scopes: ["read"] };
const all = { name: "all", token: relayToken, scopes: ["read", "pii"] };

test("a token without pii finds whole phone numbers only, and may not try many", async () => {
  const relay = await startRelayHere({
    settings: { control: { tokens: [all, reader] }, tracking: { unknown: "forward" } },
  });
  await postEvent(
    relay.webhookUrl,
    createMessages("guesses").status(wamidOf(phone, "ANA") as Wamid, "sent"),
  );
  const ask = async (path: string, token = reader.token) => {
    const answer = await fetch(`${relay.url}${path}`, {
      headers: { authorization: `Bearer ${token}` },
    });
    return {
      status: answer.status,
      retryAfter: answer.headers.get("retry-after"),
      body: (await answer.json()) as { data?: unknown[] },
    };
  };
  const count = async (path: string, token?: string) => (await ask(path, token)).body.data?.length;
  const paths = (name: string) => [
    `/v1/messages?phone=${name}`,
    `/v1/messages?q=${name}`,
    `/v1/events?q=${name}`,
    `/v1/search?q=${name}`,
  ];
  for (const path of paths("55550100")) {
    expect(await count(path, all.token)).toBe(1);
    expect(await count(path)).toBe(0);
  }
  for (let n = 0; n < 8; n += 1) for (const path of paths(phone)) expect(await count(path)).toBe(1);
  for (const path of [
    "/v1/messages/5491155550177",
    "/v1/explain/5491155550177",
    "/v1/events/549115555017712",
  ]) {
    expect(await ask(path)).toMatchObject({ status: 404 });
  }
  for (let n = 0; n < 13; n += 1)
    expect(await count(paths(`54911555502${10 + n}`)[n % 4] as string)).toBe(0);
  for (const path of [...paths("5491155550199"), ...paths(phone), "/v1/messages/5491155550177"]) {
    const refused = await ask(path);
    expect(refused).toMatchObject({ status: 429, body: { code: "too_many_guesses" } });
    expect(Number(refused.retryAfter)).toBeGreaterThan(100);
  }
  expect(await count("/v1/messages?q=order-1")).toBe(0);
  expect(await count("/v1/messages?phone=0100", all.token)).toBe(1);
  expect(
    await metric(relay, "relay_phone_guesses_total", { token: "reader", result: "missed" }),
  ).toBe(20);
  expect(
    await metric(relay, "relay_phone_guesses_total", { token: "reader", result: "found" }),
  ).toBe(32);
  expect(
    await metric(relay, "relay_phone_guesses_total", { token: "reader", result: "refused" }),
  ).toBe(9);
});
