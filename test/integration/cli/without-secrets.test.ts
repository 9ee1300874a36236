// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of settings look like those of templates
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { relayToken, webhookSecret } from "../../harness/relay-settings.ts";
import { runOn } from "./run-cli.ts";

test("commands need only the secrets that they use, and name each that is not set", async () => {
  const relay = await startRelayHere();
  const messages = createMessages("unset");
  const wamid = messages.wamid();
  await postEvent(relay.webhookUrl, messages.status(wamid, "sent"));
  // The file as a second user sees it, to whom the variables of the service are not known.
  writeFileSync(
    relay.settingsPath,
    `server: { port: ${relay.port} }
storage: { path: ${JSON.stringify(relay.storePath)} }
control: { tokens: [{ name: ops, token: "\${NO_TOKEN}", scopes: [replay] }] }
accounts: { main: { baseUrl: "https://service.example", apiKey: "\${NO_KEY}" } }
sources: { main: { signature: { service: acme, secrets: ["\${NO_SECRET}"] } } }
routes: [{ name: crm, to: { url: "https://crm.example", secret: "\${NO_CRM_SECRET}" } }]
`,
  );
  const events = await runOn(relay, "events", "list", "--json");
  expect([events.code, events.err]).toEqual([0, ""]);
  expect((JSON.parse(events.out) as { data: unknown[] }).data).toHaveLength(1);
  for (const args of [["deliveries", "list"], ["explain", wamid], ["audit"]]) {
    // An audit that takes over two seconds prints its progress.
    expect(await runOn(relay, ...args)).toMatchObject({
      code: 0,
      err: expect.stringMatching(/^(\d+% {2}.*\n)*$/),
    });
  }
  const printed = await runOn(relay, "config", "print");
  expect(printed.code).toBe(0);
  expect(printed.out).toContain("[secret not available]");
  expect(
    printed.err.match(/^note: .*needs the environment variable NO_\w+, which is not set$/gm),
  ).toHaveLength(4);

  const token =
    /cannot read the token of the relay: .*variable NO_TOKEN, which is not set.*--relay http:\S+ with --token-env/;
  for (const args of [
    ["replay"],
    ["reconcile"],
    ["resume", "crm"],
    ["reload"],
    ["console", "--no-open"],
    ["listen"],
  ]) {
    const refused = await runOn(relay, ...args);
    expect([args, refused.code, refused.out, refused.err]).toEqual([
      args,
      1,
      "",
      expect.stringMatching(token),
    ]);
  }
  const triggered = await runOn(relay, "trigger", "message.status");
  expect([triggered.code, triggered.err]).toEqual([
    1,
    expect.stringMatching(/cannot read the source's secret: .*NO_SECRET/),
  ]);
  expect((await runOn(relay, "config", "check")).code).toBe(1);

  // Where no relay runs, a command needs only the secrets that it uses itself.
  await relay.stop();
  for (const args of [
    ["replay", "--json"],
    ["resume", "crm"],
    ["track", "--wamid", messages.wamid()],
  ])
    expect([args, await runOn(relay, ...args)]).toEqual([
      args,
      { code: 0, out: expect.anything(), err: "" },
    ]);
  const polled = await runOn(relay, "reconcile");
  expect([polled.code, polled.out]).toEqual([1, ""]);
  expect(polled.err).toContain("variable NO_KEY,");
});

test("with one token to read, commands that write reach the relay, whatever else is missing", async () => {
  const relay = await startRelayHere();
  writeFileSync(
    relay.settingsPath,
    `server: { port: ${relay.port} }
storage: { path: ${JSON.stringify(relay.storePath)} }
control: { tokens: [{ name: harness, token: ${relayToken}, scopes: [replay] }] }
accounts: { main: {} }
sources: { main: { signature: { service: acme, secrets: ["\${NO_SECRET}", ${webhookSecret}] } } }
routes: [{ name: crm, to: { url: "https://crm.example", secret: "\${NO_CRM_SECRET}" } }]
`,
  );
  expect(await runOn(relay, "replay", "--dry-run")).toMatchObject({ code: 0, err: "" });
  expect(await runOn(relay, "trigger", "message.status")).toMatchObject({
    code: 0,
    out: expect.stringContaining("200 accepted"),
  });
});

test("commands that need little of the settings work with faults in other parts, whether a relay runs or not", async () => {
  const relay = await startRelayHere();
  const event = createMessages("broken settings").event();
  await postEvent(relay.webhookUrl, event);
  const whole = JSON.parse(readFileSync(relay.settingsPath, "utf8")) as Record<string, unknown>;
  const { server, storage, control } = whole;
  writeFileSync(
    relay.settingsPath,
    JSON.stringify({ server, storage, control, routs: [], sources: { main: { kind: "no such" } } }),
  );
  expect(await runOn(relay, "replay", "--dry-run")).toMatchObject({ code: 0, err: "" });
  expect(await runOn(relay, "healthcheck")).toMatchObject({ code: 0, err: "" });
  for (const end of [async () => {}, relay.stop]) {
    await end();
    for (const args of [
      ["events", "list"],
      ["explain", event.id, "--show-pii"],
    ]) {
      const { code, out, err } = await runOn(relay, ...args);
      expect([code, out, err.replace(/^note: .* has faults, which .*\n/, "")]).toEqual([
        0,
        expect.stringContaining(event.id),
        "",
      ]);
    }
    expect((await runOn(relay, "deliveries", "list")).code).toBe(0);
    expect((await runOn(relay, "audit")).code).toBe(0);
    expect((await runOn(relay, "backup", join(relay.folder, "copy.db"), "--force")).code).toBe(0);
  }
  // A fault in the part that it needs.
  writeFileSync(
    relay.settingsPath,
    JSON.stringify({ server, storage: { driver: "no such" }, routs: [] }),
  );
  expect(await runOn(relay, "events", "list")).toMatchObject({
    code: 1,
    err: expect.stringMatching(/a fault:\n.* storage\.driver: must be [^\n]*\n$/),
  });
});
