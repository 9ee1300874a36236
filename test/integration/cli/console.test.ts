import { expect, test } from "vitest";
import { startRelayHere } from "../../harness/relay-here.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { runHere } from "../../harness/run-here.ts";
import { jsonOf, runOn, runProcessOn } from "./run-cli.ts";

const signIn = (url: string, code: string) =>
  fetch(`${url}/v1/session`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });

test("prints an address that signs in once", async () => {
  const relay = await startRelayHere();
  const { code, out, err } = await runProcessOn(relay, "console", "--no-open");
  expect([code, err]).toEqual([0, ""]);
  const [, base, once = ""] = /^(\S+)\/console\/#code=(\S+)\n$/.exec(out) ?? [];
  expect(base).toBe(relay.url);
  const first = await signIn(relay.url, once);
  expect([first.status, await first.json()]).toMatchObject([200, { name: "harness" }]);
  expect((await signIn(relay.url, once)).status).toBe(401);
});

test("gives a clear error for a relay that is not running, and for a token without the scope", async () => {
  const token = "the-token-of-a-sender";
  const relay = await startRelayHere({
    settings: { control: { tokens: [{ name: "sender", token, scopes: ["send"] }] } },
  });
  const lacking = expect.stringContaining("has the scope read for all accounts (control.tokens)");
  expect(await runOn(relay, "console", "--no-open")).toEqual({ code: 1, out: "", err: lacking });
  const refused = 'wamid-relay: the token "sender" lacks the scope read\n';
  expect(
    await runHere(["console", "--no-open", "--relay", relay.url], { RELAY_TOKEN: token }),
  ).toEqual({ code: 1, out: "", err: refused });
  await relay.stop();
  // The connections kept by this process ended with the relay.
  expect(await runProcessOn(relay, "console", "--no-open")).toMatchObject({
    code: 1,
    err: expect.stringContaining("nothing answers at"),
  });
});

test("a token without the scope pii reads masks, and --show-pii fails with it", async () => {
  const token = "the-token-of-support";
  const tokens = [
    { name: "support", token, scopes: ["read"] },
    { name: "harness", token: relayToken, scopes: ["track"] },
  ];
  const relay = await startRelayHere({ settings: { control: { tokens } } });
  await relay.ask("/v1/messages/track", {
    method: "POST",
    body: { wamid: "wamid.HBgNNTQ5MTEyMzQ1Njc4OQ==", reference: "order-1" },
  });
  const explain = (more: string) =>
    runHere(["explain", "order-1", more, "--relay", relay.url], { RELAY_TOKEN: token });
  expect(jsonOf(await explain("--json"))).toMatchObject({
    data: [{ message: { wamid: "wamid:c1d980beba6a", reference: "order-1" } }],
  });
  expect(await explain("--show-pii")).toEqual({
    code: 1,
    out: "",
    err: 'wamid-relay: the token "support" lacks the scope pii\n',
  });
});
