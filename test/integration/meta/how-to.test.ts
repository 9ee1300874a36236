import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { openDownstream } from "../../harness/downstream.ts";
import { codeBlocks, readPage } from "../../harness/pages.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { until } from "../../harness/until.ts";
import { jsonOf, runOn } from "../cli/run-cli.ts";

const run = promisify(execFile);

const read = (name: string) => readPage(`docs/how-to/${name}.md`);

const secrets: Readonly<Record<string, string>> = {
  META_VERIFY_TOKEN: "a-verify-token-0123456789",
  META_APP_SECRET: "an-app-secret-0123456789",
  DIALOG_TOKEN: "a-token-of-360dialog-0123456789",
  DIALOG_PARTNER_SECRET: "a-partner-secret-0123456789",
  GUPSHUP_SECRET: "a-secret-in-a-path-0123456789",
  KAPSO_SECRET: "a-secret-of-kapso-0123456789",
  RELAY_TOKEN: "the-operator-0123456789",
  BAKERY_TOKEN: "the-bakery-0123456789",
  BAKERY_SECRET: `whsec_${Buffer.alloc(32, 1).toString("base64")}`,
  GARAGE_SECRET: `whsec_${Buffer.alloc(32, 2).toString("base64")}`,
};

/** The settings of a page, delivering to `url`. */
function settingsIn(block: string, url: string): Record<string, unknown> {
  const filled = block
    .replaceAll(/\$\{(\w+)\}/g, (_, name: string) => String(secrets[name]))
    .replaceAll(/url: \S+\/hook/g, `url: ${url}`);
  return JSON.parse(
    JSON.stringify(parse(filled)).replaceAll('"to":{', '"to":{"allowPrivate":true,'),
  ) as Record<string, unknown>;
}

/** Runs the lines of a script that need no command of the relay. */
async function bash(relay: RelayHere, script: string): Promise<string> {
  const lines = Object.entries(secrets).map(([name, value]) => `${name}="${value}"\n`);
  writeFileSync(join(relay.folder, ".env"), lines.join(""));
  const text = script
    .replaceAll("http://127.0.0.1:8080", relay.url)
    .replaceAll(/^wamid-relay .*$/gm, "");
  return (await run("bash", ["-ec", text], { cwd: relay.folder })).stdout;
}

const accepted = '{"status":"accepted","events":1,"duplicates":0,"quarantined":0,"unassigned":0}';

test("the steps of connect-meta.md perform the handshake, and bring a signed status to its destination", async () => {
  const page = read("connect-meta");
  const downstream = await openDownstream();
  const parts = codeBlocks(page, "yaml").map((block) => settingsIn(block, downstream.url));
  const relay = await startRelayHere({ settings: Object.assign({}, ...parts) });
  const steps = codeBlocks(page, "sh").find((text) => text.includes("hub.mode")) ?? "";
  expect(await bash(relay, steps)).toBe("1158201444");
  const [, trigger = ""] = /^wamid-relay (trigger .*)$/m.exec(steps) ?? [];
  expect(await runOn(relay, ...trigger.split(" "))).toMatchObject({ code: 0 });
  await until("the destination got it", () => downstream.arrivals.length === 1);
  expect(JSON.parse(String(downstream.arrivals[0]?.body))).toMatchObject({
    event: "message.status",
    data: { status: "delivered", raw: { status: "delivered" } },
  });
});

test("the sources of connect-meta-providers.md take what each provider sends, and nothing else", async () => {
  const page = read("connect-meta-providers");
  const [settings = "", partner = ""] = codeBlocks(page, "yaml");
  const parts = settingsIn(settings, "http://127.0.0.1:9/hook");
  const sources = { ...(parts["sources"] as object), partner: settingsIn(partner, "") };
  const relay = await startRelayHere({ settings: { ...parts, sources } });
  const script = codeBlocks(page, "sh").at(-1) ?? "";
  expect((await bash(relay, script)).trim().split("\n")).toEqual([accepted, accepted, accepted]);
  const asPartner = script
    .replaceAll("KAPSO", "DIALOG_PARTNER")
    .replace("/kapso", "/partner")
    .replace("x-webhook-sig", "x-360dialog-sig");
  const [, , , signed] = (
    await bash(
      relay,
      `${asPartner}\n${asPartner.split("\n").at(-2)?.replace("$SIG", "sha256=$SIG")}`,
    )
  ).split("\n");
  expect(signed).toContain('"duplicates":1');
  await expect(
    bash(relay, script.replaceAll(/\$(DIALOG_TOKEN|GUPSHUP_SECRET|SIGNATURE)/g, "wrong")),
  ).rejects.toThrow("curl");
});

test("the settings of numbers-of-several-customers.md keep customers apart, and release the events of a number once it is mapped", async () => {
  const page = read("numbers-of-several-customers");
  const downstream = await openDownstream();
  const parts = settingsIn(codeBlocks(page, "yaml")[0] ?? "", downstream.url);
  const relay = await startRelayHere({ settings: parts });
  for (const [number, waba] of [
    ["106540352242922", "1"],
    ["2", "102290129340398"],
    ["3", "4"],
  ])
    await runOn(
      relay,
      "trigger",
      "meta.status",
      "--phone-number-id",
      String(number),
      "--set",
      `entry.0.id=${JSON.stringify(waba)}`,
    );

  const events = async (token: string) => {
    const answer = await fetch(`${relay.url}/v1/events`, {
      headers: { authorization: `Bearer ${token}` },
    });
    return ((await answer.json()) as { data: { account: string; disposition: string }[] }).data.map(
      ({ account, disposition }) => `${account} ${disposition}`,
    );
  };
  expect((await events(String(secrets["RELAY_TOKEN"]))).toSorted()).toEqual([
    " unassigned",
    "bakery routed",
    "garage routed",
  ]);
  expect(await events(String(secrets["BAKERY_TOKEN"]))).toEqual(["bakery routed"]);

  const source = (parts["sources"] as { wa: { accounts: object } }).wa;
  relay.writeSettings({
    ...parts,
    sources: { wa: { ...source, accounts: { ...source.accounts, "3": "garage" } } },
  });
  await relay.reload();
  const [dryRun = "", release = ""] = (codeBlocks(page, "sh").at(-1) ?? "")
    .split("\n")
    .filter((line) => line.includes("replay"));
  const words = (line: string) => [...line.split(" ").slice(1), "--json"];
  expect(jsonOf(await runOn(relay, ...words(dryRun)))).toMatchObject({ matching: 1, replayed: 0 });
  expect(jsonOf(await runOn(relay, ...words(release)))).toMatchObject({ replayed: 1 });
  await until("all three are delivered", () => downstream.arrivals.length === 3);
});
