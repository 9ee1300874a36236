import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { parse } from "yaml";
import {
  presetAxes,
  signaturePresets,
  signatureSettingsSchema,
} from "../../../src/model/signature.ts";
import type { SignatureRefusal } from "../../../src/receive/verify-request.ts";
import { codeBlocks, readPage } from "../../harness/pages.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

const page = readPage("docs/reference/signatures.md");
/** Every reason, as the compiler checks. */
const refusals: Readonly<Record<SignatureRefusal, true>> = {
  "missing-signature": true,
  "malformed-signature": true,
  "missing-timestamp": true,
  "no-match": true,
  "stale-timestamp": true,
};

const guide = readPage("docs/how-to/identify-a-signature.md");
const relay = new URL("../../../src/cli/wamid-relay.js", import.meta.url).pathname;

test("documents the output of the verify command", () => {
  const [command] = codeBlocks(guide, "sh");
  const script = `wamid-relay() { "$NODE" "$RELAY" "$@"; }\n${command}`;
  const out = execFileSync("bash", ["-euc", script], {
    cwd: tempFolder(),
    env: { ...process.env, NODE: process.execPath, RELAY: relay },
    encoding: "utf8",
  });
  // The note on the age of the capture depends on the day.
  const [shown] = codeBlocks(guide, "text");
  expect(out.replace(/^note: .*\n/m, "")).toBe(shown);
  const block = /^ {2}signature:\n(?: {4}.*\n)+/m.exec(out)?.[0] ?? "";
  const { secrets: _, ...settings } = (parse(block) as { signature: Record<string, unknown> })
    .signature;
  expect(signatureSettingsSchema.safeParse(settings)).toMatchObject({ success: true });
});

test("documents every refusal and every preset", () => {
  for (const word of [...Object.keys(refusals), ...signaturePresets])
    expect(page).toContain(`\n| \`${word}\` |`);
  for (const [preset, { header }] of Object.entries(presetAxes)) {
    if (header !== undefined) expect(page).toContain(`| \`${preset}\` | \`${header}\``);
  }
});
