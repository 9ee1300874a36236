// biome-ignore-all lint/suspicious/noTemplateCurlyInString: variables of settings look like those of templates
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { expect, test } from "vitest";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { makeRelayHere, type RelayHere } from "../../harness/relay-here.ts";
import { runOn } from "./run-cli.ts";

const page = readFileSync(
  new URL("../../../docs/how-to/rotate-secrets.md", import.meta.url),
  "utf8",
);
const part = page.slice(
  page.indexOf("## Rotate a webhook secret"),
  page.indexOf("## Rotate a delivery secret"),
);
const scripts = [...part.matchAll(/```sh\n([\s\S]*?)```/g)].map(([, script = ""]) => script);
const settings = [...part.matchAll(/secrets: (\[.*\])/g)].map(
  ([, list = ""]) => JSON.parse(list) as string[],
);
const [before = [], during = []] = settings;
const steps = (first: string) => scripts.find((script) => script.trim().startsWith(first)) ?? "";

function variables(relay: RelayHere): NodeJS.Dict<string> {
  return parseEnv(readFileSync(join(relay.folder, ".env"), "utf8"));
}

const run = (relay: RelayHere, script: string) =>
  execFileSync("sh", ["-ec", script], { cwd: relay.folder });
const writeSecrets = (relay: RelayHere, secrets: readonly string[]) =>
  relay.writeSettings({ sources: { main: { signature: { service: "acme", secrets } } } });

test("the steps of rotate-secrets.md work twice in a row; an early end is warned about, and a repeated first step is a fault", async () => {
  const messages = createMessages("rotate twice");
  const relay = await makeRelayHere();
  const first = "secret-before-the-first-rotation";
  writeFileSync(join(relay.folder, ".env"), `WEBHOOK_SECRET=${first}\n`);
  writeSecrets(relay, before);
  await relay.start();
  const statusWith = async (secret: string) =>
    (await postEvent(relay.webhookUrl, messages.event(), { secret })).status;

  let old = first;
  for (let rotation = 1; rotation <= 2; rotation += 1) {
    expect(await statusWith(old)).toBe(200);
    run(relay, steps("sed -i 's/"));
    writeSecrets(relay, during);
    expect(await runOn(relay, "reload")).toMatchObject({
      code: 0,
      err: "",
      out: expect.stringContaining("sources.main.signature.secrets"),
    });
    const next = variables(relay)["WEBHOOK_SECRET"] ?? "";
    expect([await statusWith(next), await statusWith(old)]).toEqual([200, 200]);
    run(relay, steps("sed -i '/"));
    writeSecrets(relay, before);
    const ended = await runOn(relay, "reload");
    expect([ended.code, ended.err]).toEqual([
      0,
      expect.stringMatching(
        /^warning: sources\.main no longer has the secret [0-9a-f]{12}, which verified/,
      ),
    ]);
    expect(
      relay.log().filter(({ dropped }) => Array.isArray(dropped) && dropped.length === 1),
    ).toHaveLength(rotation);
    expect([await statusWith(next), await statusWith(old)]).toEqual([200, 401]);
    expect(Object.keys(variables(relay))).toEqual(["WEBHOOK_SECRET"]);
    old = next;
  }

  run(relay, steps("sed -i 's/"));
  run(relay, steps("sed -i 's/"));
  const refused = await runOn(relay, "config", "check");
  expect([refused.code, refused.err]).toEqual([
    1,
    expect.stringMatching(
      /\.env:2:1: sets WEBHOOK_SECRET_OLD a second time; it is already set on line 1/,
    ),
  ]);
});
