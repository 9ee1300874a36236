// Slow: it installs the package into new projects.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { startRelay } from "../harness/relay-process.ts";
import { relayToken } from "../harness/relay-settings.ts";
import { rowsOf } from "../harness/store-rows.ts";

const run = promisify(execFile);
const root = new URL("../..", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "wamid-relay-package-"));
const installed = join(folder, "node_modules/wamid-relay");
const page = readFileSync(join(root, "docs/contributing/sandbox.md"), "utf8");
/** The example of "Use it in your own tests". */
const example = /## Use it in your own tests\n[\s\S]*?```js\n([\s\S]*?)```/.exec(page)?.[1] ?? "";

// What `npm install` of the package would bring: its package.json, its build and its dependencies. Node strips no types
// under node_modules, so nothing but the build can run there.
beforeAll(async () => {
  mkdirSync(installed, { recursive: true });
  // That the types are right is known (`npm run check`, install.test.ts).
  await run(process.execPath, [join(root, ".ci/build.mjs"), "--no-check", "--out", join(installed, "dist")]);
  const { published, ...clone } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Record<string, object>;
  writeFileSync(join(installed, "package.json"), JSON.stringify({ ...clone, ...published }));
  symlinkSync(join(root, "node_modules"), join(installed, "node_modules"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the example of docs/contributing/sandbox.md works in a separate project", async () => {
  expect(example).toContain('from "wamid-relay/sandbox"');
  writeFileSync(join(folder, "sandbox.test.js"), example);
  const { stdout } = await run(process.execPath, ["--test", "--test-reporter=tap", "sandbox.test.js"], { cwd: folder }).catch(
    (error: { stdout: string }) => error,
  );
  expect(stdout).toMatch(/^# pass 1$/m);
  expect(stdout).toMatch(/^# fail 0$/m);
});

test("its types work in a TypeScript project", async () => {
  writeFileSync(
    join(folder, "typed.ts"),
    `import { type Sandbox, startSandbox } from "wamid-relay/sandbox";
export async function use(): Promise<string> {
  await using sandbox: Sandbox = await startSandbox({ plan: "enterprise", faults: { events: { duplicate: 0.5 } } });
  const status: "pending" | "sent" | "delivered" | "read" | "failed" | "received" | undefined = sandbox.messages()[0]?.status;
  return sandbox.key + status;
}
// @ts-expect-error: there is no such plan
void startSandbox({ plan: "free" });
`,
  );
  const options = [
    "--noEmit",
    "--strict",
    "--module",
    "nodenext",
    "--target",
    "es2024",
    "--lib",
    "es2024,esnext.disposable",
    "--types",
    "node",
  ];
  symlinkSync(join(root, "node_modules/@types"), join(folder, "node_modules/@types"));
  const { stdout } = await run(process.execPath, [join(root, "node_modules/typescript-7/bin/tsc"), ...options, "typed.ts"], {
    cwd: folder,
  }).catch((error: { stdout: string }) => error);
  expect(stdout).toBe("");
});

test("the five lines of docs/reference/client.md work in a separate project", async () => {
  const relay = await startRelay();
  const messages = createMessages("five lines");
  const wamid = messages.wamid();
  await postEvent(relay.webhookUrl, messages.status(wamid, "delivered"));
  const lines = /## Five lines\n[\s\S]*?```js\n([\s\S]*?)```/.exec(readFileSync(join(root, "docs/reference/client.md"), "utf8"))?.[1] ?? "";
  expect(lines.trim().split("\n").length).toBe(5);
  writeFileSync(join(folder, "five-lines.js"), lines);
  const env = { ...process.env, RELAY_URL: relay.url, RELAY_TOKEN: relayToken, WAMID: wamid };
  const { stdout, stderr } = await run(process.execPath, ["five-lines.js"], { cwd: folder, env }).catch(
    (error: { stdout: string; stderr: string }) => error,
  );
  expect([stdout, stderr]).toEqual([expect.stringMatching(/^delivered \d{4}-\d\d-\d\dT[\d:.]+Z\n$/), ""]);
  expect(rowsOf(relay.storePath, "SELECT reference FROM subjects")).toEqual([{ reference: "order-1234" }]);
});

test("the client's types work without Node's, and it loads nothing else", async () => {
  writeFileSync(
    join(folder, "typed-client.ts"),
    `import { RelayClient, RelayClientError, type TrackedLine } from "wamid-relay/client";
export async function use(client: RelayClient): Promise<TrackedLine["result"] | number> {
  try {
    for await (const { result } of client.trackAll([{ account: "main", wamid: "w", sentAt: new Date() }])) return result;
    return (await client.getEvent({ id: "1" })).deliveries[0]?.attemptHistory[0]?.tookMs ?? 0;
  } catch (error) {
    if (error instanceof RelayClientError && error.code === "conflict") return error.line ?? error.status;
    throw error;
  }
}
// @ts-expect-error: a message has a wamid
void new RelayClient({ url: "http://relay", token: "t" }).track({ account: "main" });
`,
  );
  const options = ["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--module", "nodenext", "--target", "es2024"];
  const { stdout } = await run(
    process.execPath,
    [join(root, "node_modules/typescript-7/bin/tsc"), ...options, "--lib", "es2024,dom,dom.iterable", "--types", "", "typed-client.ts"],
    { cwd: folder },
  ).catch((error: { stdout: string }) => error);
  expect(stdout).toBe("");
  // What it reaches when it is loaded is its own: no package, and nothing of Node's.
  const reached = new Set<string>();
  const follow = (file: string): void => {
    if (reached.has(file)) return;
    reached.add(file);
    for (const [, from = ""] of readFileSync(file, "utf8").matchAll(/from "([^"]+)"/g)) {
      expect([file, from]).toEqual([file, expect.stringMatching(/^\.\.?\//)]);
      follow(join(dirname(file), from));
    }
  };
  follow(join(installed, "dist/client/relay-client.js"));
  expect(reached.size).toBeGreaterThan(3);
});
