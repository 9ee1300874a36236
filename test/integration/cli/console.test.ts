import { expect, onTestFinished, test, vi } from "vitest";
import { startRelayHere } from "../../harness/relay-here.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { runCli } from "../../harness/run-cli.ts";

const signIn = (url: string, code: string) =>
  fetch(`${url}/v1/session`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ code }) });

test("prints an address that signs in once", async () => {
  const relay = await startRelayHere();
  const { code, stdout, stderr } = await runCli("console", "--no-open", "--config", relay.settingsPath);
  expect([code, stderr]).toEqual([0, ""]);
  const [, base, once = ""] = /^(\S+)\/console\/#code=(\S+)\n$/.exec(stdout) ?? [];
  expect(base).toBe(relay.url);
  const first = await signIn(relay.url, once);
  expect([first.status, await first.json()]).toMatchObject([200, { name: "harness" }]);
  expect((await signIn(relay.url, once)).status).toBe(401);
});

test("gives a clear error for a relay that is not running, and for a token without the scope", async () => {
  const settings = { control: { tokens: [{ name: "sender", token: "the-token-of-a-sender", scopes: ["send"] }] } };
  const relay = await startRelayHere({ settings });
  const lacking = await runCli("console", "--no-open", "--config", relay.settingsPath);
  expect([lacking.code, lacking.stdout]).toEqual([1, ""]);
  expect(lacking.stderr).toContain("has the scope read for all accounts (control.tokens)");
  vi.stubEnv("RELAY_TOKEN", "the-token-of-a-sender");
  onTestFinished(() => void vi.unstubAllEnvs());
  const refused = await runCli("console", "--no-open", "--relay", relay.url);
  expect([refused.code, refused.stderr]).toEqual([1, 'wamid-relay: the token "sender" lacks the scope read\n']);
  await relay.stop();
  const stopped = await runCli("console", "--no-open", "--config", relay.settingsPath);
  expect([stopped.code, stopped.stderr]).toEqual([1, expect.stringContaining("nothing answers at")]);
});

test("a token without the scope pii reads masks, and --show-pii fails with it", async () => {
  const wamid = "wamid.HBgNNTQ5MTEyMzQ1Njc4OQ==";
  const token = "the-token-of-support";
  const relay = await startRelayHere({
    settings: {
      control: {
        tokens: [
          { name: "support", token, scopes: ["read"] },
          { name: "harness", token: relayToken, scopes: ["track"] },
        ],
      },
    },
  });
  await relay.ask("/v1/messages/track", { method: "POST", body: { wamid, reference: "order-1" } });
  vi.stubEnv("RELAY_TOKEN", token);
  onTestFinished(() => void vi.unstubAllEnvs());
  const { code, stdout, stderr } = await runCli("explain", "order-1", "--json", "--relay", relay.url);
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { data: [{ message: { wamid: "wamid:c1d980beba6a", reference: "order-1" } }] }]);
  expect(stderr).toBe("");
  expect(await runCli("explain", "order-1", "--show-pii", "--relay", relay.url)).toMatchObject({
    code: 1,
    stdout: "",
    stderr: 'wamid-relay: the token "support" lacks the scope pii\n',
  });
});
