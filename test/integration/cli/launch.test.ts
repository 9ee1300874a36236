import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { serveEnvironment, serveFlags } from "../../../src/cli/node-flags.js";
import { entry, makeRelay } from "../../harness/relay-process.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { until } from "../../harness/until.ts";

const { engines } = JSON.parse(readFileSync("package.json", "utf8")) as {
  engines: { node: string };
};
const required = engines.node.slice(">=".length);

/** A `serve` started with these flags. */
async function startServe(flags: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const relay = await makeRelay();
  const child = spawn(
    process.execPath,
    [...flags, entry, "serve", "--config", relay.settingsPath],
    {
      stdio: ["ignore", "pipe", "ignore"],
      env: { ...process.env, ...env },
    },
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  let log = "";
  child.stdout.on("data", (chunk) => (log += chunk));
  return { child, ended: once(child, "close"), log: () => log };
}

/**
 * What a `serve` that listens was started with; it must end in order on SIGTERM to its first
 * process id.
 */
async function startOf(flags: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { child, ended, log } = await startServe(flags, env);
  await until("it listens", () => log().includes('"listening"'));
  const [seen = [], variables] = ["cmdline", "environ"].map((file) =>
    readFileSync(`/proc/${child.pid}/${file}`, "utf8").split("\0"),
  );
  child.kill("SIGTERM");
  expect(await ended).toEqual([0, null]);
  expect(log()).toContain('"stopped"');
  const arenas = variables?.find((variable) => variable.startsWith("MALLOC_ARENA_MAX="));
  return { flags: seen.slice(1, seen.indexOf(entry)).filter((flag) => flag !== "--"), arenas };
}

test("serve restarts itself with its flags and environment, in the same process", async () => {
  expect(await startOf([])).toEqual({
    flags: serveFlags,
    arenas: `MALLOC_ARENA_MAX=${serveEnvironment.MALLOC_ARENA_MAX}`,
  });
  expect(await startOf([], { MALLOC_ARENA_MAX: "3" })).toMatchObject({
    arenas: "MALLOC_ARENA_MAX=3",
  });
});

test("a missing --env-file is reported by the command, where the project starts Node", async () => {
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as {
    scripts: Record<string, string>;
  };
  const starts = [
    scripts["start"],
    scripts["relay"],
    /^ENTRYPOINT \[(.*)\]$/m.exec(readFileSync("Dockerfile", "utf8"))?.[1],
  ];
  for (const start of starts) expect(start).toMatch(/^"?node"?,? "?--"?,? /);
  const { settingsPath } = await makeRelay();
  for (const command of ["serve", "events list"]) {
    const args = [
      "--",
      entry,
      ...command.split(" "),
      "--config",
      settingsPath,
      "--env-file",
      "/nowhere/env",
    ];
    await expect(promisify(execFile)(process.execPath, args)).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^wamid-relay: .*\n.*\/nowhere\/env: file not found \(--env-file sets its path\)\n$/,
      ),
    });
  }
});

test("serve keeps flags that are given by hand", async () => {
  const own = ["--min_semi_space_size=8", "--allocation-site-pretenuring"];
  const others = serveFlags.filter((flag) => !/semi-space|site-pretenuring/.test(flag));
  expect(await startOf(own, { NODE_OPTIONS: "--max-semi-space-size=32" })).toMatchObject({
    flags: [...own, ...others],
  });
});

/**
 * Prints the space for new objects in MB, of a thread that starts after the command line has run,
 * and of the main thread.
 */
const comparesThreads = `
  import { Worker } from "node:worker_threads";
  process.argv = ["node", "wamid-relay", "--version"];
  await import(${JSON.stringify(pathToFileURL(resolve("src/cli/launch.js")))});
  const printSize = \`
    for (let i = 0; i < 3e6; i++) globalThis.kept = { i, before: i % 1000 === 0 ? globalThis.kept : null };
    const size = process.getBuiltinModule("v8").getHeapSpaceStatistics().find((space) => space.space_name === "new_space").space_size;
    console.log(size / 2 ** 20);\`;
  new Worker(printSize, { eval: true }).on("exit", new Function(printSize));`;

test("serve's threads take little space for new objects", async () => {
  const { stdout } = await run(process.execPath, [
    ...serveFlags,
    "--input-type=module",
    "-e",
    comparesThreads,
  ]);
  expect(stdout.split("\n").slice(1)).toEqual(["4", "32", ""]);
});

/**
 * Sends itself signals in the moment in which it writes that it listens, as a supervisor might that
 * reads the log.
 */
const signalsItself = `
  import fs from "node:fs";
  import { syncBuiltinESMExports } from "node:module";
  const { write } = fs;
  fs.write = (fd, data, ...rest) => {
    write(fd, data, ...rest);
    if (data.includes('"listening"')) for (const signal of ["SIGHUP", "SIGTERM"]) process.kill(process.pid, signal);
  };
  syncBuiltinESMExports();`;

test("signals that arrive as soon as serve reports that it listens reload and stop it", async () => {
  const { ended, log } = await startServe([
    "--import",
    `data:text/javascript,${encodeURIComponent(signalsItself)}`,
  ]);
  expect(await ended).toEqual([0, null]);
  expect(log()).toContain('"settings reloaded"');
  expect(log()).toContain('"stopped"');
});

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(command: string, args: readonly string[], cwd?: string): Promise<Run> {
  return promisify(execFile)(command, args, { cwd }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error) => error,
  );
}

/** Runs a script on a Node that reports these versions. */
function runOn(versions: Readonly<Record<string, string>>, ...args: string[]): Promise<Run> {
  const change = `Object.defineProperty(process, "versions", { value: { ...process.versions, ...${JSON.stringify(versions)} } })`;
  return run(process.execPath, [
    "--import",
    `data:text/javascript,${encodeURIComponent(change)}`,
    ...args,
  ]);
}

test("a Node that is too old ends with one line that names the required version", async () => {
  for (const old of ["12.22.12", `${required}.0`, "23.11.1"]) {
    const { code, stdout, stderr } = await runOn({ node: old }, entry, "--version");
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^[^\n]+\n$/);
    expect(stderr).toContain(
      `A clone of wamid-relay needs Node.js 24.0 or later, and this is Node.js ${old}. `,
    );
    // Only clones on Linux hold a Node of their own.
    expect(stderr).toContain(
      existsSync(`node_modules/node-linux-${process.arch}/bin/node`)
        ? "npm run -s relay --"
        : "https://nodejs.org",
    );
  }
  for (const recent of ["24.0.0", "100.1.0"])
    expect(await runOn({ node: recent }, entry, "--version")).toMatchObject({
      code: 0,
      stderr: "",
    });
});

test("Bun and Deno end with one line that names Node", async () => {
  for (const [name, text] of Object.entries({ bun: "Bun 1.4.5", deno: "Deno 2.9.6" })) {
    const { code, stdout, stderr } = await runOn(
      { [name]: text.split(" ")[1] as string },
      entry,
      "serve",
    );
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(/^[^\n]+\n$/);
    expect(stderr).toContain(
      `A clone of wamid-relay needs Node.js 24.0 or later, and this is ${text}. `,
    );
  }
});

test("the sandbox names the required version on an older Node, and loads no package before", async () => {
  const file = "src/sandbox/start-sandbox.ts";
  const start = `import { startSandbox } from ${JSON.stringify(resolve(file))}; await startSandbox().catch((error) => console.log(String(error)));`;
  expect(await runOn({ node: "20.20.2" }, "--input-type=module", "-e", start)).toMatchObject({
    code: 0,
    stdout: `SandboxRefused: wamid-relay/sandbox needs Node.js ${required} or later, and this is Node.js 20.20.2\n`,
  });
  const reached = new Set<string>();
  const follow = (path: string): void => {
    if (reached.has(path)) return;
    reached.add(path);
    for (const [, from = ""] of readFileSync(path, "utf8").matchAll(
      /^(?:import|export) (?!type )[^;]*from "([^"]+)"/gm,
    ))
      if (!from.startsWith("node:")) follow(resolve(dirname(path), from));
  };
  follow(resolve(file));
  expect([...reached].map((path) => basename(path)).sort()).toEqual([
    "node-version.js",
    "sandbox-refused.ts",
    "start-sandbox.ts",
  ]);
});

const command = relative(".", entry);

/** A folder with these files of the clone, at the same paths. */
function copied(place: string, ...files: string[]): string {
  const folder = tempFolder();
  for (const file of files) cpSync(file, join(folder, place, file));
  return join(folder, place);
}

test("npm pack refuses in a clone and names npm run pack, and npm publish refuses", async () => {
  const clone = copied(".", "package.json", ".npmrc", command);
  const packed = await run("npm", ["pack"], clone);
  expect(packed.code).not.toBe(0);
  expect(packed.stderr).toMatch(/^npm error .*use "npm run pack", not "npm pack"/m);
  // npm publishes no private package.
  expect(JSON.parse(readFileSync("package.json", "utf8"))).toMatchObject({ private: true });
  expect(readdirSync(clone).filter((name) => name.endsWith(".tgz"))).toEqual([]);
});

test("the command of a package names the required version, or npm run pack without compiled code", async () => {
  const installed = copied(
    "node_modules/wamid-relay",
    "package.json",
    command,
    "src/model/node-version.js",
    "src/cli/main.ts",
  );
  const serveOn = (node: string) => runOn({ node }, join(installed, command), "serve");
  const [major = "", minor = ""] = required.split(".");
  const old = `${major}.${Number(minor) - 1}.9`;
  const { stderr: refusal } = await serveOn(old);
  expect(refusal).toContain(
    `wamid-relay needs Node.js ${required} or later, and this is Node.js ${old}. `,
  );
  const { code, stderr } = await serveOn(`${required}.0`);
  expect([code, stderr]).toEqual([
    1,
    'This package of wamid-relay is not compiled. In a clone, run "npm run pack" and install the tarball that it makes.\n',
  ]);
});

test("a clone that is linked or installed as a folder runs its sources, and the package its compiled code", () => {
  const { bin, exports, published } = JSON.parse(readFileSync("package.json", "utf8"));
  const targets = (value: unknown): string[] =>
    typeof value === "string" ? [value] : Object.values(value as object).flatMap(targets);
  for (const path of targets([bin, exports])) expect(existsSync(path), path).toBe(true);
  expect(Object.keys(exports)).toEqual(Object.keys(published.exports));
  for (const path of targets(published)) expect(path).toMatch(/^(\.\/)?dist\/|package\.json$/);
});

test("the pages that name the minimum version name this one", () => {
  for (const page of ["README.md", "docs/start/install.md"])
    expect(readFileSync(page, "utf8"), page).toContain(`Node ${required}`);
});
