// @module-tag slow: it installs the package with two versions of Node, and the production packages
// as the Dockerfile does.
import { execFile } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, expect, test } from "vitest";
import { openDownstream } from "../harness/downstream.ts";
import { between, codeBlocks, readPage } from "../harness/pages.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { startProgram } from "../harness/program.ts";
import { startRelayHere } from "../harness/relay-here.ts";
import { relayToken } from "../harness/relay-settings.ts";
import { rowsOf } from "../harness/store-rows.ts";
import { tempFolder } from "../harness/temp-folder.ts";
import { freePort } from "../setup/free-port.ts";

const run = promisify(execFile);
const root = new URL("../..", import.meta.url).pathname;
const folder = tempFolder();
/** A project that has the package without its having been installed. */
const plain = join(folder, "plain");
const installed = join(plain, "node_modules/wamid-relay");
const { engines, version } = JSON.parse(readPage("package.json")) as {
  engines: { node: string };
  version: string;
};
/** The package that holds the Node binary for this machine. */
const nodePackage = `node-linux-${process.arch}`;
const required = engines.node.slice(">=".length);
const dockerfile = readPage("Dockerfile");
let tarball = "";

beforeAll(async () => {
  // That the types are right is known (`npm run check`).
  const { stdout } = await run("npm", ["run", "-s", "pack", "--", "--no-check", "--out", folder], {
    cwd: root,
  });
  tarball = stdout.trim();
  // What `npm install` of it would bring. Node strips no types under node_modules, so nothing but
  // the build can run there.
  mkdirSync(installed, { recursive: true });
  await run("tar", ["-xzf", tarball, "-C", installed, "--strip-components=1"]);
  symlinkSync(join(root, "node_modules"), join(installed, "node_modules"));
  writeFileSync(join(plain, "package.json"), '{ "type": "module" }');
});

/**
 * A new folder with a package.json, and commands that run in it. `machine` is a folder with the
 * `node` of the machine.
 */
function createProject(name: string, machine?: string) {
  const cwd = join(folder, name);
  mkdirSync(cwd);
  writeFileSync(
    join(cwd, "package.json"),
    JSON.stringify({ name, private: true, scripts: { version: "node --version" } }),
  );
  // Without what `npm test` adds: the Node and the settings of this clone.
  const env = Object.fromEntries(
    Object.entries(process.env).filter(
      ([key]) => !/^npm_(lifecycle|package|config_ignore_scripts)/.test(key),
    ),
  );
  const system = (env["PATH"] ?? "")
    .split(delimiter)
    .filter((path) => !path.includes("node_modules"));
  env["PATH"] = [
    join(cwd, "node_modules/.bin"),
    ...(machine === undefined ? [] : [machine]),
    ...system,
  ].join(delimiter);
  return {
    cwd,
    run: (command: string, ...args: string[]) => run(command, args, { cwd, env }),
    install: (...packages: string[]) =>
      run("npm", ["install", "--prefer-offline", "--no-audit", "--no-fund", ...packages], {
        cwd,
        env,
      }),
    start: (...args: string[]) => startProgram("wamid-relay", args, { cwd, env }),
  };
}
type Project = ReturnType<typeof createProject>;

/**
 * `init`, the sandbox, `serve`, and a message sent through the sandbox, until a downstream has its
 * first event.
 */
async function forwardFirstEvent(project: Project): Promise<void> {
  const downstream = await openDownstream();
  const port = await freePort();
  const sandbox = project.start(
    "sandbox",
    "--json",
    "--port",
    "0",
    "--webhook",
    `http://127.0.0.1:${port}/webhooks/main`,
  );
  const line = await sandbox.until(
    "the sandbox is ready",
    () => /^\{.*"what":"ready".*$/m.exec(sandbox.output())?.[0],
  );
  const { url, apiUrl, key, secret, templateId } = JSON.parse(line) as Record<
    "url" | "apiUrl" | "key" | "secret" | "templateId",
    string
  >;

  const answers = [
    "--service-name",
    "acme",
    "--downstream",
    `${downstream.url}/events`,
    "--base-url",
    url,
    "--port",
    String(port),
  ];
  await project.run(
    "wamid-relay",
    "init",
    ...answers,
    "--webhook-secret",
    secret,
    "--api-key",
    key,
  );
  const relay = project.start("serve", "--config", "relay.yaml");
  await relay.until("the relay listens", () => relay.output().includes('"listening"'));

  const sent = await fetch(`${apiUrl}/messages`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ to: "+5491155551234", template: { id: templateId } }),
  });
  expect(sent.ok, await sent.text()).toBe(true);
  await relay.until("the downstream has the event", () => downstream.arrivals.length > 0);
  expect(
    (await project.run("wamid-relay", "events", "list", "--config", "relay.yaml")).stdout,
  ).toContain("message.status");

  for (const program of [relay, sandbox])
    expect(await program.end("SIGTERM"), program.output()).toEqual([0, null]);
}

/** `require` and `import` of the client both work. */
async function useClient(project: Project): Promise<void> {
  const options = '{ url: "http://relay", token: "t" }';
  const required = await project.run(
    "node",
    "-p",
    `new (require("wamid-relay/client").RelayClient)(${options}).constructor.name`,
  );
  const code = `import { RelayClient } from "wamid-relay/client"; console.log(new RelayClient(${options}).constructor.name)`;
  const imported = await project.run("node", "--input-type=module", "-e", code);
  expect([required.stdout, imported.stdout]).toEqual(["RelayClient\n", "RelayClient\n"]);
}

test("pack uses npm also where another package manager runs it", async () => {
  const out = join(folder, "by-pnpm");
  mkdirSync(out);
  const env = { ...process.env, npm_execpath: "/opt/pnpm/bin/pnpm.cjs" };
  const args = [".ci/pack.mjs", "--dist", join(installed, "dist"), "--out", out];
  await run(process.execPath, args, { cwd: root, env });
  expect(readdirSync(out)).toEqual([`wamid-relay-${version}.tgz`]);
});

test("the tarball holds compiled code with its types, and nothing of development", async () => {
  const { stdout } = await run("tar", ["-tzf", tarball]);
  const files = stdout.trim().split("\n");
  expect(files).toEqual(
    expect.arrayContaining([
      "package/dist/cli/wamid-relay.js",
      "package/README.md",
      "package/LICENSE",
    ]),
  );
  expect(
    files.filter((file) => /\.map$|(?<!\.d)\.ts$|^package\/(src|test|bench)\//.test(file)),
  ).toEqual([]);
  const packed = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
  for (const key of ["private", "scripts", "devDependencies", "optionalDependencies", "published"])
    expect(packed).not.toHaveProperty(key);
  expect(packed.engines).toEqual({ node: `>=${required}` });
  // A user's compiler finds no other package, except by luck.
  const types = files.filter((file) => file.endsWith(".d.ts")).map((file) => file.slice(8));
  const imported = types.flatMap((file) =>
    [
      ...readFileSync(join(installed, file), "utf8").matchAll(
        /(?:from |import\()"((?:@[^/"]+\/)?[^./"][^/"]*)/g,
      ),
    ].map(([, name = ""]) => name),
  );
  expect(Object.keys(packed.dependencies)).toEqual(
    expect.arrayContaining(imported.filter((name) => !name.startsWith("node:"))),
  );
});

test("the client's types compile for a page, which has no types of Node", async () => {
  writeFileSync(
    join(plain, "page.ts"),
    'import { createRelayClient } from "wamid-relay/client";\nawait createRelayClient({ url: "/" }).getOverview();\n',
  );
  const compilerOptions = {
    noEmit: true,
    strict: true,
    target: "es2024",
    module: "esnext",
    moduleResolution: "bundler",
    lib: ["es2024", "dom", "dom.iterable", "dom.asynciterable"],
    types: [],
  };
  const project = join(plain, "page.tsconfig.json");
  writeFileSync(project, JSON.stringify({ compilerOptions, files: ["page.ts"] }));
  const tsc = join(root, "node_modules/typescript-7/bin/tsc");
  await run(process.execPath, [tsc, "-p", project]).catch((error: { stdout: string }) =>
    expect.fail(error.stdout),
  );
});

test("publint and attw find nothing wrong with the tarball", async () => {
  const bin = join(root, "node_modules/.bin");
  const checked = async (command: string, ...args: string[]) =>
    run(process.execPath, [join(bin, command), ...args]).catch((error: { stdout: string }) =>
      expect.fail(`${command}: ${error.stdout}`),
    );
  await checked("publint", "run", tarball, "--strict");
  // Only TypeScript's older resolution, "node10", does not read `exports`.
  await checked("attw", tarball, "--profile", "node16", "--entrypoints", "client", "package.json");
  // From CommonJS, Node 22 and later can require it: it is an ES module only.
  await checked(
    "attw",
    tarball,
    "--profile",
    "node16",
    "--entrypoints",
    "sandbox",
    "--ignore-rules",
    "cjs-resolves-to-esm",
  );
});

test("the example of docs/contributing/sandbox.md works in a separate project", async () => {
  const page = readPage("docs/contributing/sandbox.md");
  const [example = ""] = codeBlocks(between(page, "## Use it in your own tests", "\n## "), "js");
  expect(example).toContain('from "wamid-relay/sandbox"');
  writeFileSync(join(plain, "sandbox.test.js"), example);
  const { stdout } = await run(
    process.execPath,
    ["--test", "--test-reporter=tap", "sandbox.test.js"],
    { cwd: plain },
  ).catch((error: { stdout: string }) => error);
  expect(stdout).toMatch(/^# pass 1$/m);
  expect(stdout).toMatch(/^# fail 0$/m);
});

test("its types work in a TypeScript project", async () => {
  writeFileSync(
    join(plain, "typed.ts"),
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
  symlinkSync(join(root, "node_modules/@types"), join(plain, "node_modules/@types"));
  expect(await typeErrors("typed.ts", "es2024,esnext.disposable", "node")).toBe("");
});

test("the five lines of docs/reference/client.md work in a separate project", async () => {
  const relay = await startRelayHere();
  const messages = createMessages("five lines");
  const wamid = messages.wamid();
  await postEvent(relay.webhookUrl, messages.status(wamid, "delivered"));
  const [lines = ""] = codeBlocks(
    between(readPage("docs/reference/client.md"), "## Five lines", "\n## "),
    "js",
  );
  expect(lines.trim().split("\n").length).toBe(5);
  writeFileSync(join(plain, "five-lines.js"), lines);
  const env = { ...process.env, RELAY_URL: relay.url, RELAY_TOKEN: relayToken, WAMID: wamid };
  const { stdout, stderr } = await run(process.execPath, ["five-lines.js"], {
    cwd: plain,
    env,
  }).catch((error: { stdout: string; stderr: string }) => error);
  expect([stdout, stderr]).toEqual([
    expect.stringMatching(/^delivered \d{4}-\d\d-\d\dT[\d:.]+Z\n$/),
    "",
  ]);
  expect(rowsOf(relay.storePath, "SELECT reference FROM subjects")).toEqual([
    { reference: "order-1234" },
  ]);
});

test("the client's types work without Node's, and it loads nothing else", async () => {
  writeFileSync(
    join(plain, "typed-client.ts"),
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
  expect(await typeErrors("typed-client.ts", "es2024,dom,dom.iterable", "")).toBe("");
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

/** What the compiler reports about a file of the project. */
async function typeErrors(file: string, lib: string, types: string): Promise<string> {
  const tsc = join(root, "node_modules/typescript-7/bin/tsc");
  const options = [
    "--noEmit",
    "--strict",
    "--exactOptionalPropertyTypes",
    "--module",
    "nodenext",
    "--target",
    "es2024",
  ];
  const args = [tsc, ...options, "--lib", lib, "--types", types, file];
  return (
    await run(process.execPath, args, { cwd: plain }).catch((error: { stdout: string }) => error)
  ).stdout;
}

test("on the oldest Node, a new folder goes from the tarball to the first forwarded event, and its own Node stays", async () => {
  const node = `${required}.0`;
  const project = createProject("oldest");
  await project.install(`${nodePackage}@${node}`);
  await project.install(tarball);
  expect((await project.run(join(project.cwd, "node_modules/.bin/node"), "--version")).stdout).toBe(
    `v${node}\n`,
  );
  expect((await project.run("npm", "run", "-s", "version")).stdout).toBe(`v${node}\n`);
  expect((await project.run("wamid-relay", "--version")).stdout).toBe(`${version}\n`);
  await useClient(project);
  await forwardFirstEvent(project);
});

test("on Node 20, the client works, and the command names the required version and works with a newer Node beside it", async () => {
  const project = createProject("node-20", await node20());
  // As docs/start/install.md says.
  const [, advice = ""] =
    /^npm install (node@\d+) \.\/wamid-relay/m.exec(readPage("docs/start/install.md")) ?? [];
  await project.install(advice, tarball);
  expect((await project.run("wamid-relay", "--version")).stdout).toBe(`${version}\n`);
  await forwardFirstEvent(project);

  // Without the newer one.
  rmSync(join(project.cwd, "node_modules/.bin/node"));
  const { stdout: before } = await project.run("node", "--version");
  expect(before).toMatch(/^v20\./);
  await useClient(project);
  const needs = (what: string) =>
    `${what} needs Node.js ${required} or later, and this is Node.js ${before.trim().slice(1)}`;
  const refused = await project.run("wamid-relay", "serve").catch((error) => error);
  expect([refused.code, refused.stdout]).toEqual([1, ""]);
  expect(refused.stderr).toBe(
    `${needs("wamid-relay")}. Install a current version from https://nodejs.org/en/download and run the command again.\n`,
  );
  const sandbox =
    'import { startSandbox } from "wamid-relay/sandbox"; await startSandbox().catch((error) => console.log(error.message))';
  expect((await project.run("node", "--input-type=module", "-e", sandbox)).stdout).toBe(
    `${needs("wamid-relay/sandbox")}\n`,
  );
});

/** The folder of a Node 20: the machine's own, or one that npm brings. */
async function node20(): Promise<string | undefined> {
  const machine = createProject("machine-20");
  if ((await machine.run("node", "--version")).stdout.startsWith("v20.")) return undefined;
  await machine.install(`${nodePackage}@20`);
  return join(machine.cwd, "node_modules/.bin");
}

test("the image runs as a numeric user, with labels, on a base that can be pinned", () => {
  expect(dockerfile).toMatch(/^USER \d+:\d+$/m);
  expect(dockerfile).toContain("org.opencontainers.image.version");
  expect([...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, from]) => from)).toEqual(
    Array(3).fill("${NODE_IMAGE}"),
  );
});

test("the Dockerfile copies files that exist", () => {
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap((match) =>
    (match[1] as string).split(" "),
  );
  expect(copied).toContain("src");
  for (const path of copied) expect(existsSync(join(root, path)), path).toBe(true);
});

// No Docker engine runs where these tests do: the same steps, in folders.
test("the steps of the image build a relay that starts without development packages", async () => {
  const image = join(folder, "image");
  for (const file of [
    "package.json",
    "package-lock.json",
    ".npmrc",
    "config",
    "docs/reference/examples.json",
  ])
    cpSync(join(root, file), join(image, file), { recursive: true });
  const dependencies = /npm ci (--omit=\S+ --omit=\S+)/.exec(dockerfile)?.[1]?.split(" ");
  expect(dependencies).toEqual(["--omit=dev", "--omit=optional"]);
  await run("npm", ["ci", ...(dependencies ?? [])], { cwd: image });
  // `npm run pack` has run the same `npm run build`.
  cpSync(join(installed, "dist"), join(image, "dist"), { recursive: true });
  expect(existsSync(join(image, "node_modules/typescript"))).toBe(false);
  // The Node and the PostgreSQL of the clone.
  const { optionalDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  for (const name of Object.keys(optionalDependencies))
    expect(existsSync(join(image, "node_modules", name)), name).toBe(false);

  // What is no code and lies beside it was copied as well.
  const list = await run(process.execPath, ["dist/cli/wamid-relay.js", "trigger", "--list"], {
    cwd: image,
  });
  expect(list.stdout).toContain("\nmessage.status.failed ");

  const port = await freePort();
  const env = {
    ...process.env,
    PORT: String(port),
    WEBHOOK_SECRET: "w".repeat(20),
    RELAY_TOKEN: "t".repeat(20),
    CRM_SECRET: "c".repeat(20),
  };
  const [, command] = /^ENTRYPOINT (\[.*\])$/m.exec(dockerfile) ?? [];
  const [, argv] = /^CMD (\["serve.*\])$/m.exec(dockerfile) ?? [];
  const [, ...args] = [...JSON.parse(command as string), ...JSON.parse(argv as string)] as string[];
  const serving = run(process.execPath, args, { cwd: image, env });
  try {
    const [, check] = /\n {2}CMD (\["node",.*"healthcheck".*\])\n/.exec(dockerfile) ?? [];
    const [, ...probe] = JSON.parse(check as string) as string[];
    // The settings that serve has, and as in the container the same environment.
    expect(probe.slice(-2)).toEqual(args.slice(-2));
    const isAlive = async () =>
      (await run(process.execPath, probe, { cwd: image, env }).catch(() => null)) !== null;
    await expect.poll(isAlive, { timeout: 250_000, interval: 200 }).toBe(true);
    expect(existsSync(join(image, "data/relay.db"))).toBe(true);
    const api = await fetch(`http://127.0.0.1:${port}/v1/openapi.json`, {
      headers: { authorization: `Bearer ${env.RELAY_TOKEN}` },
    });
    expect([api.status, await api.text()]).toEqual([200, expect.stringContaining('"example-1"')]);
  } finally {
    serving.child.kill("SIGTERM");
  }
  expect((await serving).stdout).toContain('"msg":"stopped"');
});
