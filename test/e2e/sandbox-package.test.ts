import { execFile } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";

const run = promisify(execFile);
const root = new URL("../..", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "wamid-relay-package-"));
const installed = join(folder, "node_modules/wamid-relay");
const page = readFileSync(join(root, "docs/sandbox.md"), "utf8");
/** The example of "Use it in your own tests". */
const example = /## Use it in your own tests\n[\s\S]*?```js\n([\s\S]*?)```/.exec(page)?.[1] ?? "";

// What `npm install` of the package would bring: its package.json, its build and its dependencies. Node strips no types
// under node_modules, so nothing but the build can run there.
beforeAll(async () => {
  const tsc = join(root, "node_modules/typescript/bin/tsc");
  mkdirSync(installed, { recursive: true });
  await run(process.execPath, [tsc, "-p", join(root, "src/tsconfig.json"), "--outDir", join(installed, "dist")]).catch(
    (error: { stdout: string }) => {
      throw new Error(`the sources do not compile:\n${error.stdout}`);
    },
  );
  cpSync(join(root, "package.json"), join(installed, "package.json"));
  symlinkSync(join(root, "node_modules"), join(installed, "node_modules"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the example of docs/sandbox.md works in a project of its own", { timeout: 60_000 }, async () => {
  expect(example).toContain('from "wamid-relay/sandbox"');
  writeFileSync(join(folder, "sandbox.test.js"), example);
  const { stdout } = await run(process.execPath, ["--test", "--test-reporter=tap", "sandbox.test.js"], { cwd: folder }).catch(
    (error: { stdout: string }) => error,
  );
  expect(stdout).toMatch(/^# pass 1$/m);
  expect(stdout).toMatch(/^# fail 0$/m);
});

test("its types are there for a TypeScript project", { timeout: 60_000 }, async () => {
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
  const { stdout } = await run(process.execPath, [join(root, "node_modules/typescript/bin/tsc"), ...options, "typed.ts"], {
    cwd: folder,
  }).catch((error: { stdout: string }) => error);
  expect(stdout).toBe("");
});

test("what the exports name is part of what is published", () => {
  const { exports, files } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    exports: Record<string, Record<string, string>>;
    files: string[];
  };
  for (const path of Object.values(exports["./sandbox"] ?? {})) {
    expect(files).toContain(path.split("/")[1]);
    expect(() => readFileSync(join(installed, path))).not.toThrow();
  }
});
