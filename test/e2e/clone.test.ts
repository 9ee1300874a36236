// @module-tag slow: it runs the README's first two commands in a clone.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, readdirSync, statSync, symlinkSync, utimesSync } from "node:fs";
import { basename, delimiter, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openPage } from "../harness/browser.ts";
import { readPage, root } from "../harness/pages.ts";
import { tempFolder } from "../harness/temp-folder.ts";
import { until } from "../harness/until.ts";

const folder = tempFolder();
const clone = join(folder, "clone");
/** TMPDIR of the commands. */
const temporary = join(folder, "tmp");
mkdirSync(temporary);

const ignored = readPage(".gitignore").match(/^[\w.-]+(?=\/$)/gm) ?? [];
cpSync(root, clone, {
  recursive: true,
  filter: (path) => ![".git", ...ignored].includes(basename(path)),
});
symlinkSync(join(root, "node_modules"), join(clone, "node_modules"));

/** Both commands, as README.md has them. */
const [demoLine = "", testLine = ""] = (
  /```sh\n(npm ci[\s\S]*?)```/.exec(readPage("README.md"))?.[1] ?? ""
).split("\n");

/** Runs a line in the clone with the machine's own Node, on a terminal. */
function typed(line: string) {
  const env = Object.fromEntries(
    Object.entries(process.env).filter(
      ([key]) => !/^(npm_|VITEST|NODE_|FORCE_COLOR$|CI$)/.test(key),
    ),
  );
  const PATH = (env["PATH"] ?? "")
    .split(delimiter)
    .filter((path) => !path.includes("node_modules"))
    .join(delimiter);
  const child = spawn("script", ["-qec", line, "/dev/null"], {
    cwd: clone,
    env: {
      ...env,
      PATH,
      TMPDIR: temporary,
      npm_config_prefer_offline: "true",
      npm_config_progress: "false",
      NO_COLOR: "1",
    },
    stdio: ["pipe", "pipe", "inherit"],
  });
  let text = "";
  child.stdin.on("error", () => {});
  child.stdout.on("data", (chunk) => (text += chunk));
  const ended = once(child, "close");
  onTestFinished(async () => {
    if (child.exitCode === null) child.stdin.write("\x03");
    await ended;
  });
  return { child, ended, text: () => text };
}

// `npm ci`, with which both begin, is the first command of .ci/run, in a fresh clone too.
test("the README's first two commands work in a fresh clone once npm ci has run", async () => {
  expect(demoLine).toMatch(/^npm ci && npm run demo +#/);
  expect(testLine).toMatch(/^npm ci && npm test +#/);
  const demo = typed(demoLine.replace(/^npm ci && |#.*/g, ""));
  const link = await until("the demo prints a link", () => {
    if (demo.child.exitCode !== null) throw new Error(`the demo ended: ${demo.text()}`);
    return /http:\S+\/console\/#code=\S+/.exec(demo.text())?.[0];
  });
  const { page } = await openPage(new URL(link).origin);
  await page.goto(link);
  await page.getByText("● live").waitFor();
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.close();
  demo.child.stdin.write("\x03");
  await demo.ended;
  expect(demo.text()).not.toMatch(/npm error|MISMATCH/);
  expect(readdirSync(temporary).filter((name) => name.startsWith("wamid-relay-demo-"))).toEqual([]);

  // Of all tests one file: these run among them.
  const tests = typed(`${testLine.replace(/^npm ci && |#.*/g, "")} -- test/unit/model/ids.test.ts`);
  expect(await tests.ended, tests.text()).toEqual([0, null]);
  expect(tests.text()).toMatch(/everyday/);
  expect(tests.text()).toMatch(/Test Files.* 1 passed/);

  // What `npm run demo` does first, the next time: nothing, until a source is newer.
  const built = join(clone, "dist/console/index.html");
  const buildConsole = async () => {
    const before = statSync(built).mtimeMs;
    const build = typed("node .ci/build.mjs --only-console");
    expect(await build.ended, build.text()).toEqual([0, null]);
    return statSync(built).mtimeMs > before;
  };
  expect(await buildConsole()).toBe(false);
  utimesSync(built, new Date(0), new Date(0));
  expect(await buildConsole()).toBe(true);
});
