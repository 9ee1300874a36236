import { expect, test } from "vitest";
import { startRelayHere } from "../../harness/relay-here.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { expectAlive, expectCleanLog, expectError, metric } from "./alive.ts";
import { ask, connect, requestBytes } from "./raw-client.ts";

const guess = (
  token: string | null,
  { target = "/v1/events", from }: { target?: string; from?: string } = {},
) =>
  requestBytes({
    method: "GET",
    target,
    lines: [
      "host: relay.test",
      ...(token === null ? [] : [`authorization: Bearer ${token}`]),
      ...(from === undefined ? [] : [`x-forwarded-for: ${from}`]),
    ],
  });
const badTokens = (log: Record<string, unknown>[]) => log.filter(({ msg }) => msg === "bad token");

test("bad tokens from one address get 401 up to the limit, then 429, while a good token works", async () => {
  const relay = await startRelayHere({ settings: { server: { badSignatureLimit: 1_000 } } });
  const targets = ["/v1/events", "/v1/listen", "/v1/openapi.json", "/v1/messages/some-wamid"];
  for (let n = 0; n < 19; n += 1) {
    expectError(
      await ask(
        relay.port,
        guess(`guess-${n}-of-many`, { target: targets[n % targets.length] as string }),
      ),
      "unauthorized",
    );
  }
  expectError(await ask(relay.port, guess(null)), "unauthorized");
  for (let n = 0; n < 30; n += 1) {
    const connection = await connect(relay.port);
    // Not believed, so that no client escapes by it: this relay trusts no proxy.
    await connection.write(guess(`more-${n}`, { from: `198.51.100.${n}` }));
    const answer = await connection.answer();
    expectError(answer, "too_many_bad_tokens");
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    expect(Number(answer.headers["retry-after"])).toBeLessThanOrEqual(60);
    expect(await connection.closed()).toBe("");
  }
  expect((await ask(relay.port, guess(relayToken))).status).toBe(200);
  // Neither limit counts what the other does.
  await expectAlive(relay);
  expectError(
    await ask(relay.port, requestBytes({ body: "{}", secret: "wrong" })),
    "bad_signature",
  );

  expect(await metric(relay, "relay_bad_tokens_total", { reason: "unknown" })).toBe(49);
  expect(await metric(relay, "relay_bad_tokens_total", { reason: "missing" })).toBe(1);
  const lines = badTokens(relay.log());
  expect(lines.length).toBe(20);
  expect(lines[0]).toMatchObject({ level: "warn", reason: "unknown", address: "127.0.0.1" });
  expect(JSON.stringify(lines)).not.toContain("guess-");
  expectCleanLog(relay);
});

test("counts clients behind a trusted proxy by the forwarded address", async () => {
  const relay = await startRelayHere({
    settings: { server: { trustProxy: ["loopback"] }, control: controlWith(2) },
  });
  for (const from of ["198.51.100.1", "198.51.100.2:4711", "[2001:db8::1]:99"]) {
    for (let n = 0; n < 2; n += 1)
      expectError(
        await ask(relay.port, guess("a-wrong-token-here", { from: `203.0.113.9, ${from}` })),
        "unauthorized",
      );
    expectError(
      await ask(relay.port, guess("a-wrong-token-here", { from })),
      "too_many_bad_tokens",
    );
    expect((await ask(relay.port, guess(relayToken, { from }))).status).toBe(200);
  }
});

test("does not count a known token without the scope as bad, and a reload changes the limit", async () => {
  const relay = await startRelayHere({ settings: { control: controlWith(1) } });
  for (let n = 0; n < 5; n += 1)
    expectError(
      await ask(relay.port, guess("only-for-listening", { target: "/v1/stats" })),
      "forbidden",
    );
  expect(await metric(relay, "relay_bad_tokens_total")).toBe(0);
  expectError(await ask(relay.port, guess("a-wrong-token-here")), "unauthorized");
  expectError(await ask(relay.port, guess("a-wrong-token-here")), "too_many_bad_tokens");
  relay.writeSettings({ control: controlWith(3) });
  await relay.reload();
  expectError(await ask(relay.port, guess("a-wrong-token-here")), "unauthorized");
});

function controlWith(badTokenLimit: number) {
  return {
    badTokenLimit,
    tokens: [
      {
        name: "harness",
        token: relayToken,
        scopes: ["read", "track", "send", "replay", "listen", "pii"],
      },
      { name: "listener", token: "only-for-listening", scopes: ["listen"] },
    ],
  };
}
