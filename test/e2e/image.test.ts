// @module-tag slow: it installs the production packages as the Dockerfile does.
import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, test } from "vitest";
import { freePort } from "../setup/free-port.ts";

const run = promisify(execFile);
const root = new URL("../..", import.meta.url).pathname;
const folder = mkdtempSync(join(tmpdir(), "wamid-relay-image-"));
const dockerfile = readFileSync(join(root, "Dockerfile"), "utf8");

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the image runs as a numeric user, with labels, on a base that can be pinned", () => {
  expect(dockerfile).toMatch(/^USER \d+:\d+$/m);
  expect(dockerfile).toContain("org.opencontainers.image.version");
  expect([...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, from]) => from)).toEqual(Array(3).fill("${NODE_IMAGE}"));
});

test("the Dockerfile copies files that exist", () => {
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap((match) => (match[1] as string).split(" "));
  expect(copied).toContain("src");
  for (const path of copied) expect(existsSync(join(root, path)), path).toBe(true);
});

// No Docker engine runs where these tests do: the same steps, in folders.
test("the steps of the image build a relay that starts without development packages", async () => {
  for (const file of ["package.json", "package-lock.json", ".npmrc", "config", "docs/reference/examples.json"])
    cpSync(join(root, file), join(folder, file), { recursive: true });
  const dependencies = /npm ci (--omit=\S+ --omit=\S+)/.exec(dockerfile)?.[1]?.split(" ");
  expect(dependencies).toEqual(["--omit=dev", "--omit=optional"]);
  await run("npm", ["ci", ...(dependencies ?? [])], { cwd: folder });
  // Not into the clone's own dist: relays of other tests serve the console from there. `npm run check` checks the types.
  await run("npm", ["run", "build", "--", "--no-check", "--out", join(folder, "dist")], { cwd: root });
  expect(existsSync(join(folder, "node_modules/typescript"))).toBe(false);
  // The Node and the PostgreSQL of the clone.
  const { optionalDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  for (const name of Object.keys(optionalDependencies)) expect(existsSync(join(folder, "node_modules", name)), name).toBe(false);

  // What is no code and lies beside it was copied as well.
  const list = await run(process.execPath, ["dist/cli/wamid-relay.js", "trigger", "--list"], { cwd: folder });
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
  const serving = run(process.execPath, args, { cwd: folder, env });
  try {
    const [, check] = /\n {2}CMD (\["node",.*"healthcheck".*\])\n/.exec(dockerfile) ?? [];
    const [, ...probe] = JSON.parse(check as string) as string[];
    // The settings that serve has, and as in the container the same environment.
    expect(probe.slice(-2)).toEqual(args.slice(-2));
    const isAlive = async () => (await run(process.execPath, probe, { cwd: folder, env }).catch(() => null)) !== null;
    await expect.poll(isAlive, { timeout: 250_000, interval: 200 }).toBe(true);
    expect(existsSync(join(folder, "data/relay.db"))).toBe(true);
    const api = await fetch(`http://127.0.0.1:${port}/v1/openapi.json`, { headers: { authorization: `Bearer ${env.RELAY_TOKEN}` } });
    expect([api.status, await api.text()]).toEqual([200, expect.stringContaining('"example-1"')]);
  } finally {
    serving.child.kill("SIGTERM");
  }
  expect((await serving).stdout).toContain('"msg":"stopped"');
});
