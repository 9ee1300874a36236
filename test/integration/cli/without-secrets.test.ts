import { writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { runOn } from "./run-cli.ts";

test("commands that look need none of the relay's secrets; commands that write name each that is not set", async () => {
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
accounts: { main: { apiKey: "\${NO_KEY}" } }
sources: { main: { signature: { service: acme, secrets: ["\${NO_SECRET}"] } } }
routes: [{ name: crm, to: { url: "https://crm.example", secret: "\${NO_CRM_SECRET}" } }]
`,
  );
  const events = await runOn(relay, "events", "list", "--json");
  expect([events.code, events.err]).toEqual([0, ""]);
  expect((JSON.parse(events.out) as { data: unknown[] }).data).toHaveLength(1);
  for (const args of [["deliveries", "list"], ["explain", wamid], ["audit"]]) {
    // An audit that takes over two seconds prints its progress.
    expect(await runOn(relay, ...args)).toMatchObject({ code: 0, err: expect.stringMatching(/^(\d+% {2}.*\n)*$/) });
  }
  const printed = await runOn(relay, "config", "print");
  expect(printed.code).toBe(0);
  expect(printed.out).toContain("[secret not available]");
  expect(printed.err.match(/^note: .*needs the environment variable NO_\w+, which is not set$/gm)).toHaveLength(4);

  const written = await runOn(relay, "replay");
  expect([written.code, written.out]).toEqual([1, ""]);
  for (const name of ["NO_TOKEN", "NO_KEY", "NO_SECRET", "NO_CRM_SECRET"]) expect(written.err).toContain(`variable ${name},`);
  expect((await runOn(relay, "config", "check")).code).toBe(1);
});
