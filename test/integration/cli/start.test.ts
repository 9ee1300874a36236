import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { entry } from "../../harness/relay-process.ts";

const folder = mkdtempSync(join(tmpdir(), "wamid-relay-start-"));
afterAll(() => rmSync(folder, { recursive: true }));
const preload = new URL("loaded-modules.ts", import.meta.url).href;

/** The packages that a command loads, and how many modules there are of this project's own. */
async function loadedBy(...args: string[]): Promise<{ packages: string[]; own: string[] }> {
  const list = join(folder, "modules.txt");
  const env = { ...process.env, LOADED_MODULES: list };
  await promisify(execFile)(process.execPath, ["--import", preload, entry, ...args], { env }).catch((error: { code: unknown }) => {
    // Wrong usage and faulty settings: they load something too.
    if (error.code !== 1 && error.code !== 2) throw error;
  });
  const urls = readFileSync(list, "utf8").split("\n");
  rmSync(list);
  const packages = urls.flatMap((url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1] ?? []);
  const own = urls.filter((url) => url.startsWith("file:") && !url.includes("/node_modules/"));
  return { packages: [...new Set(packages)].sort(), own };
}

test.each([
  [["--version"]],
  [["--help"]],
  [["serve", "--help"]],
  [["trigger", "--help"]],
  [["nonsense"]],
  [["events", "list", "--limit", "0"]],
  [["replay", "--state", "waiting"]],
])("what only reads the command line loads commander and nothing else: %j", async (args) => {
  const { packages, own } = await loadedBy(...args);
  expect(packages).toEqual(["commander"]);
  // A file for each command, and the words and values of their options.
  expect(own.length).toBeLessThan(60);
  expect(own.filter((url) => /\/src\/(config\/(schema|load)|store\/sqlite|store\/redis|sandbox|receive)\b/.test(url))).toEqual([]);
});

test("settings are read without what only a running relay needs", async () => {
  const good = join(folder, "relay.yaml");
  writeFileSync(good, "storage: { path: relay.db }\n");
  const { packages } = await loadedBy("config", "check", "--config", good);
  expect(packages).toEqual(expect.arrayContaining(["commander", "yaml", "zod"]));
  const faulty = join(folder, "faulty.yaml");
  writeFileSync(faulty, "nonsense: 1\n");
  for (const found of [packages, (await loadedBy("serve", "--config", faulty)).packages])
    expect(found.filter((name) => /^(fastify|undici|better-sqlite3|bullmq|ioredis|pino|@prometheus-io\/client)$/.test(name))).toEqual([]);
});
