import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { parseEnv } from "node:util";
import { Command } from "commander";
import { Webhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { describe, expect, test } from "vitest";
import { build, runInit } from "../../../src/cli/init.ts";
import type { Io } from "../../../src/cli/io.ts";
import { loadSettings } from "../../../src/config/load.ts";
import { warnings } from "../../../src/config/warnings.ts";
import type { UrlDestinationSettings } from "../../../src/deliver/settings.ts";
import { type Ran, runHere } from "../../harness/run-here.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { until } from "../../harness/until.ts";

const root = tempFolder();
let folders = 0;
const newFolder = () => join(root, `relay-${++folders}`);

const init = (folder: string, ...args: string[]): Promise<Ran> =>
  runHere(["init", "--dir", folder, ...args]);
const envOf = (folder: string) =>
  parseEnv(readFileSync(join(folder, ".env"), "utf8")) as Record<string, string>;
const settingsOf = (folder: string) => loadSettings(join(folder, "relay.yaml"), {});

test("writes settings that load, and secrets in a private file", async () => {
  const folder = newFolder();
  const { code, out } = await init(
    folder,
    "--service-name",
    "Acme",
    "--downstream",
    "https://app.example/hooks?a=${b}",
  );
  expect(code).toBe(0);
  expect(statSync(join(folder, ".env")).mode & 0o777).toBe(0o600);
  const settings = settingsOf(folder);
  expect(settings.storage).toMatchObject({
    driver: "sqlite",
    path: join(folder, "data", "relay.db"),
  });
  // A copy for a test restore can name another store.
  expect(readFileSync(join(folder, "relay.yaml"), "utf8")).toContain("export RELAY_DATA=");
  expect(
    loadSettings(join(folder, "relay.yaml"), { RELAY_DATA: "restored.db" }).storage,
  ).toMatchObject({ path: "restored.db" });
  expect(settings.sources["main"]).toMatchObject({
    account: "main",
    signature: { service: "acme" },
  });
  expect(settings.routes[0]?.to).toMatchObject({
    url: "https://app.example/hooks?a=${b}",
    allowPrivate: false,
  });
  expect(readFileSync(join(folder, "relay.yaml"), "utf8")).not.toContain(
    envOf(folder)["RELAY_TOKEN"],
  );
  expect(readdirSync(folder).sort()).toEqual([".env", "relay.schema.json", "relay.yaml"]);
  const commands = out.split("\n").filter((line) => line.startsWith("  "));
  expect(
    commands.map((line) =>
      line
        .trim()
        .split(" --config")[0]
        ?.replace(/^npm run -s relay --|^npx wamid-relay/, "wamid-relay"),
    ),
  ).toEqual([
    "wamid-relay config check",
    "wamid-relay serve",
    "wamid-relay trigger message.status",
  ]);
});

test("prints commands that a shell takes as they are, whatever the folder is named", async () => {
  const { out } = await init(`${newFolder()} of $HOME's`, "--yes", "--json");
  const { next, settings } = JSON.parse(out) as { next: string[]; settings: string };
  for (const command of next) {
    const [, word] = command.split(" --config ");
    expect(String(execFileSync("sh", ["-c", `printf %s ${word}`]))).toBe(settings);
  }
});

test("the outgoing secret is one that Standard Webhooks libraries take, and differs each time", async () => {
  const secrets = new Set<string>();
  for (const folder of [newFolder(), newFolder()]) {
    await init(folder, "--yes");
    const { DOWNSTREAM_SECRET: secret = "" } = envOf(folder);
    secrets.add(secret);
    expect(Buffer.from(secret.replace(/^whsec_/, ""), "base64")).toHaveLength(32);
    const at = new Date();
    const headers = {
      "webhook-id": "1",
      "webhook-timestamp": String(Math.floor(at.getTime() / 1000)),
    };
    const signature = new Webhook(secret).sign("1", at, "{}");
    expect(
      new SvixWebhook(secret).verify("{}", { ...headers, "webhook-signature": signature }),
    ).toEqual({});
  }
  expect(secrets.size).toBe(2);
});

test("config check warns about secrets that were not given, and about none that was", async () => {
  const [without, withBoth] = [newFolder(), newFolder()];
  const told = await init(without, "--yes");
  expect(told.out).toMatch(/Put the real secrets into .*\.env in place of: WEBHOOK_SECRET\.$/m);
  const warned = warnings(settingsOf(without)).map(({ path, message }) => `${path} ${message}`);
  expect(warned).toEqual([
    expect.stringMatching(/^sources\.main\.signature\.secrets\[0\] is the placeholder/),
  ]);
  const { code, err } = await runHere(
    ["config", "check", "--config", join(without, "relay.yaml")],
    {},
  );
  expect([code, err.split("\n").filter((line) => line.includes("placeholder")).length]).toEqual([
    0, 1,
  ]);
  const callable = newFolder();
  const asked = await init(callable, "--yes", "--base-url", "https://messaging.example");
  expect(asked.out).toContain("WEBHOOK_SECRET, MESSAGING_API_KEY");
  expect(warnings(settingsOf(callable))).toHaveLength(2);

  const secret = 'it\'s a "secret" # 100%';
  await init(
    withBoth,
    "--yes",
    "--webhook-secret",
    secret,
    "--api-key",
    "key-1",
    "--base-url",
    "https://messaging.example",
  );
  const settings = settingsOf(withBoth);
  expect(settings.sources["main"]?.signature?.secrets.map((each) => each.reveal())).toEqual([
    secret,
  ]);
  expect(settings.accounts["main"]).toMatchObject({ baseUrl: "https://messaging.example" });
  expect(settings.accounts["main"]?.apiKey?.reveal()).toBe("key-1");
  expect(warnings(settings)).toEqual([]);
});

test("takes the service's secrets from the environment", async () => {
  const folder = newFolder();
  const given = {
    WEBHOOK_SECRET: "webhook-secret-of-the-test",
    MESSAGING_API_KEY: "key-of-the-test",
  };
  const { out } = await runHere(["init", "--yes", "--json", "--dir", folder], given);
  expect(JSON.parse(out)).toMatchObject({
    settings: join(folder, "relay.yaml"),
    envFile: join(folder, ".env"),
    placeholders: [],
  });
  expect(envOf(folder)).toMatchObject(given);
});

describe("with --provider meta", () => {
  test("writes a source for Meta's Cloud API, and prints the verify token", async () => {
    const folder = newFolder();
    const downstream = "https://app.example/hooks";
    const { out } = await runHere(
      ["init", "--provider", "meta", "--dir", folder, "--downstream", downstream],
      {
        META_APP_SECRET: "app-secret-of-the-test",
        MESSAGING_API_KEY: "of another service",
      },
    );
    const {
      META_VERIFY_TOKEN: token,
      DOWNSTREAM_SECRET: secret,
      MESSAGING_API_KEY: key,
    } = envOf(folder);
    expect(token).toMatch(/^[0-9a-f]{32}$/);
    expect(key).toBeUndefined();
    expect(out).toContain(`Verify token   ${token}\n`);
    expect(out).toContain("/webhooks/wa\n");
    expect(out).toContain("trigger meta.status");
    const settings = settingsOf(folder);
    expect(warnings(settings)).toEqual([]);
    expect(settings.sources["wa"]).toMatchObject({
      format: "meta",
      account: "main",
      signature: { preset: "meta" },
    });
    expect(settings.sources["wa"]?.signature?.secrets.map((each) => each.reveal())).toEqual([
      "app-secret-of-the-test",
    ]);
    const to = settings.routes[0]?.to as UrlDestinationSettings;
    expect([to.url, to.signature?.secret.reveal()]).toEqual([downstream, secret]);

    const file = join(folder, "relay.yaml");
    writeFileSync(file, readFileSync(file, "utf8").replace("# registerBy", "registerBy"));
    expect(settingsOf(folder).sources["wa"]).toMatchObject({ registerBy: "callback-data" });
  });

  test("the app secret is a placeholder until it is given", async () => {
    const folder = newFolder();
    const { out } = await init(
      folder,
      "--provider",
      "meta",
      "--yes",
      "--json",
      "--verify-token",
      "a token",
    );
    expect(JSON.parse(out)).toMatchObject({
      placeholders: ["META_APP_SECRET"],
      verifyToken: "a token",
    });
    expect(envOf(folder)["META_VERIFY_TOKEN"]).toBe("a token");
    expect(warnings(settingsOf(folder)).map(({ path }) => path)).toEqual([
      "sources.wa.signature.secrets[0]",
    ]);
  });

  test("asks for no service name", async () => {
    const folder = newFolder();
    const { input, shown, run } = onTerminal(folder);
    input.write("meta\n\n\n");
    await run({});
    expect(shown()).not.toContain("Short name");
    expect(settingsOf(folder).sources["wa"]).toMatchObject({ format: "meta" });
  });
});

test("storage postgres keeps the address out of the settings file", async () => {
  const folder = newFolder();
  await init(folder, "--yes", "--postgres-url", "postgres://user:pa%23ss@db.example:5432/relay");
  expect(settingsOf(folder).storage.driver).toBe("postgres");
  expect(envOf(folder)["POSTGRES_URL"]).toBe("postgres://user:pa%23ss@db.example:5432/relay");
  expect(readFileSync(join(folder, "relay.yaml"), "utf8")).not.toContain("pa%23ss");
});

test("the schema line names a file that exists and is the schema of the settings", async () => {
  const folder = newFolder();
  await init(folder, "--yes");
  const [, path = ""] =
    /^# yaml-language-server: \$schema=(\S+)\n/.exec(
      readFileSync(join(folder, "relay.yaml"), "utf8"),
    ) ?? [];
  const schema = readFileSync(join(folder, path), "utf8");
  expect(schema).toBe(
    readFileSync(new URL("../../../config/relay.schema.json", import.meta.url), "utf8"),
  );
});

test("replaces no file, also one that came during the questions", async () => {
  const folder = newFolder();
  await init(folder, "--yes");
  const before = envOf(folder);
  const refused = await init(folder, "--yes");
  expect([refused.code, refused.out]).toEqual([1, ""]);
  expect(refused.err).toContain("already exist; move them away, or give --dir another folder");
  expect(envOf(folder)).toEqual(before);

  rmSync(join(folder, "relay.yaml"));
  expect((await init(folder, "--yes")).err).toContain("already exists; move it away");
  expect(existsSync(join(folder, "relay.yaml"))).toBe(false);

  rmSync(join(folder, ".env"));
  const { input, run } = onTerminal(folder);
  const asking = run({ serviceName: "acme", downstream: "https://app.example" });
  writeFileSync(join(folder, "relay.yaml"), "mine");
  input.write("\n");
  await expect(asking).rejects.toThrow("relay.yaml already exists");
  expect(readFileSync(join(folder, "relay.yaml"), "utf8")).toBe("mine");
  expect(existsSync(join(folder, ".env"))).toBe(false);
});

test("writes nothing when the settings would not load, or the folder cannot be written", async () => {
  const folder = newFolder();
  const wrong = await runHere(["init", "--yes", "--dir", folder], { PORT: "none" });
  expect([wrong.code, wrong.out]).toEqual([1, ""]);
  expect(wrong.err).toContain(
    "relay.yaml:13:9 server.port: must be a number, not text (from ${PORT})\n",
  );
  expect(readdirSync(folder)).toEqual([]);

  writeFileSync(join(folder, "file"), "");
  const { code, err } = await init(join(folder, "file", "below"), "--yes");
  expect([code, err]).toEqual([1, expect.stringContaining("cannot write to ")]);
});

test("an address of this machine needs no http://", async () => {
  const folder = newFolder();
  expect(await init(folder, "--downstream", "localhost:3000/hook", "--yes")).toMatchObject({
    code: 0,
    err: "",
  });
  expect(readFileSync(join(folder, "relay.yaml"), "utf8")).toContain(
    'url: "http://localhost:3000/hook"\n',
  );
});

test.each([
  [[], "give --service-name and --downstream"],
  [["--service-name", "acme"], "give --downstream, or --yes"],
  [["--service-name", "ac me", "--yes"], "letters, digits and hyphens"],
  [["--downstream", "app.example", "--yes"], "http or https URL"],
  [["--storage", "redis", "--yes"], "Allowed choices are sqlite, postgres"],
  [
    ["--storage", "sqlite", "--postgres-url", "postgres://r@h/d", "--yes"],
    "--postgres-url is for --storage postgres",
  ],
  [["--postgres-url", "postgres://h", "--yes"], "It must be a URL such as postgres://"],
  [["--webhook-secret", "", "--yes"], "one line of text"],
  [["--provider", "meta"], "give --downstream, or --yes"],
  [
    ["--provider", "meta", "--service-name", "acme", "--yes"],
    "--service-name is for --provider standard",
  ],
  [["--app-secret", "a", "--yes"], "--app-secret is for --provider meta"],
])("refuses %j without a terminal as wrong usage", async (args, message) => {
  const folder = newFolder();
  const { code, out, err } = await init(folder, ...args);
  expect([code, out, existsSync(folder)]).toEqual([2, "", false]);
  expect(err).toContain(message);
});

/** `init` on a terminal that a test types on. */
function onTerminal(folder: string) {
  const input = new PassThrough();
  const output = new PassThrough();
  let shown = "";
  output.setEncoding("utf8").on("data", (text: string) => {
    shown += text;
  });
  const printed: string[] = [];
  const io: Io = {
    out: (line) => void printed.push(line),
    err: (line) => void printed.push(line),
    isTerminal: true,
    env: {},
    readStdin: async () => Buffer.alloc(0),
  };
  const command = new Command("init").exitOverride();
  build(command, io);
  const options = { port: 8080, dir: folder };
  return {
    input,
    shown: () => shown,
    run: (more: object) =>
      runInit(command, { ...options, ...more }, io, { input, output, isTerminal: true }),
  };
}

test("asks on a terminal, repeats a question after a wrong answer, and takes the default for an empty one", async () => {
  const folder = newFolder();
  const { input, shown, run } = onTerminal(folder);
  const running = run({});
  await until("it asks for the provider", () => shown().includes("Provider: standard"));
  input.write("\n");
  await until("it asks for the name", () => shown().includes("Short name"));
  input.write("my service\n");
  await until("it asks again", () => shown().split("Short name").length === 3);
  expect(shown()).toContain("letters, digits and hyphens");
  // All at once, as pasted: no answer is lost between the questions.
  input.write("shop\n\npostgres\npostgres://relay@db.example/relay\n");
  await running;
  const settings = settingsOf(folder);
  expect(settings.sources["main"]?.signature?.service).toBe("shop");
  expect(settings.routes[0]?.to).toMatchObject({
    url: "http://127.0.0.1:3000/webhooks",
    allowPrivate: true,
  });
  expect(envOf(folder)["POSTGRES_URL"]).toBe("postgres://relay@db.example/relay");
});

test("asks only for what the options leave out", async () => {
  const folder = newFolder();
  const { input, shown, run } = onTerminal(folder);
  input.write("\n");
  await run({ serviceName: "shop", downstream: "https://app.example/" });
  expect(shown()).toContain("Storage");
  expect(shown()).not.toMatch(/Provider|Short name|Downstream/);
});

test("writes nothing when the input ends before the last answer", async () => {
  const folder = newFolder();
  const { input, run } = onTerminal(folder);
  input.end("standard\nshop\n");
  await expect(run({})).rejects.toThrow("nothing was written");
  expect(existsSync(folder)).toBe(false);
});
