// Slow: it starts a process for each command.
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { entry, type RelayProcess, startRelay } from "../../harness/relay-process.ts";
import { routeTo, type SettingsParts } from "../../harness/relay-settings.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { until } from "../../harness/until.ts";

const folder = tempFolder();
const preload = new URL("loaded-modules.ts", import.meta.url).href;

const event = {
  id: "01998d3e-7c1a-7000-8000-000000000001",
  event: "campaign.finished",
  createdAt: "2026-11-21T12:00:00.000Z",
  data: {},
};

/** The packages that a command loads, and how many modules there are of this project's own. */
async function loadedBy(...args: string[]): Promise<{ packages: string[]; own: string[] }> {
  const list = join(folder, "modules.txt");
  const env = { ...process.env, LOADED_MODULES: list };
  await promisify(execFile)(process.execPath, ["--import", preload, entry, ...args], { env }).catch(
    (error: { code: unknown }) => {
      // Wrong usage and faulty settings: they load something too.
      if (error.code !== 1 && error.code !== 2) throw error;
    },
  );
  return sorted(readFileSync(list, "utf8").split("\n"));
}

function sorted(urls: readonly string[]): { packages: string[]; own: string[] } {
  const packages = urls.flatMap(
    (url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(url)?.[1] ?? [],
  );
  const own = urls.filter((url) => url.startsWith("file:") && !url.includes("/node_modules/"));
  return { packages: [...new Set(packages)].sort(), own };
}

test.each([
  [["--help"]],
  [["serve", "--help"]],
  [["nonsense"]],
  [["events", "list", "--limit", "0"]],
])("loads only commander to read the command line: %j", async (args) => {
  const { packages, own } = await loadedBy(...args);
  expect(packages).toEqual(["commander"]);
  // The file of one command, and the words and values of its options.
  expect(own.length).toBeLessThan(25);
  expect(
    own.filter((url) =>
      /\/src\/(config\/(schema|load)|store\/sqlite|store\/postgres|sandbox|receive)\b/.test(url),
    ),
  ).toEqual([]);
});

test.each([[["--version"]], [["help"]]])(
  "loads no command when none is named: %j",
  async (args) => {
    const { own } = await loadedBy(...args);
    const files = own.flatMap((url) => /\/src\/cli\/(.+)\.[jt]s$/.exec(url)?.[1] ?? []);
    expect(files.sort()).toEqual(["commands", "io", "launch", "main", "node-flags", "wamid-relay"]);
  },
);

test("reads settings without the packages of a running relay", async () => {
  const good = join(folder, "relay.yaml");
  writeFileSync(good, "storage: { path: relay.db }\n");
  const { packages } = await loadedBy("config", "check", "--config", good);
  expect(packages).toEqual(expect.arrayContaining(["commander", "yaml", "zod"]));
  const faulty = join(folder, "faulty.yaml");
  writeFileSync(faulty, "nonsense: 1\n");
  for (const found of [packages, (await loadedBy("serve", "--config", faulty)).packages])
    expect(
      found.filter((name) =>
        /^(fastify|undici|better-sqlite3|bullmq|ioredis|pino|@prometheus-io\/client)$/.test(name),
      ),
    ).toEqual([]);
});

/** What a relay with these settings has loaded at its end, after `use`. */
async function loadedByServe(
  settings: SettingsParts,
  use: (relay: RelayProcess) => Promise<void> = async () => {},
): Promise<string[]> {
  const list = join(folder, "serve.txt");
  const relay = await startRelay({
    settings,
    env: { NODE_OPTIONS: `--import=${preload}`, LOADED_MODULES: list },
  });
  await use(relay);
  expect(await relay.stop()).toEqual({ code: 0, signal: null });
  return readFileSync(list, "utf8").split("\n");
}

test("a relay loads what its settings need before it reports ready", {
  tags: ["slow"],
}, async () => {
  const downstream = await openDownstream();
  const withRoute = { routes: [routeTo(downstream.url)] };
  const ready = await loadedByServe(withRoute);
  const used = await loadedByServe(withRoute, async (relay) => {
    expect((await postEvent(relay.webhookUrl, Buffer.from(JSON.stringify(event)))).word).toBe(
      "accepted",
    );
    await until("it is delivered", () => downstream.arrivals.length === 1);
  });
  // undici itself reads its parser at its first connection.
  expect(
    used.filter((url) => !ready.includes(url) && !url.includes("/undici/lib/llhttp/")),
  ).toEqual([]);
  const { packages, own } = sorted(used);
  expect(packages).toEqual(expect.arrayContaining(["fastify", "undici", "better-sqlite3"]));
  // Of the other engine, of schemas that no route has, and of traces; the library for metrics loads
  // OpenTelemetry's API.
  expect(
    packages.filter((name) =>
      /^(bullmq|ioredis|pg|ajv|pino-pretty|@opentelemetry\/(?!api$).*)$/.test(name),
    ),
  ).toEqual([]);
  expect(own.filter((url) => /\/src\/(store\/postgres|sandbox)\//.test(url))).toEqual([]);
  // What describes the API is made for who asks.
  expect(own.filter((url) => /\/src\/control\/(openapi|routes)/.test(url))).toEqual([
    expect.stringContaining("/routes.ts"),
  ]);

  // Only an endpoint loads traces; an empty one, as from an unset variable, does not.
  const tracing = /\/src\/(app\/tracing|observe\/traces)\./;
  expect(own.filter((url) => tracing.test(url))).toEqual([]);
  const off = sorted(await loadedByServe({ traces: { endpoint: "" } }));
  expect(off.own.filter((url) => tracing.test(url))).toEqual([]);
  const traced = sorted(await loadedByServe({ traces: { endpoint: "http://127.0.0.1:9" } }));
  expect(traced.own.filter((url) => tracing.test(url)).length).toBe(2);
  expect(traced.packages).toContain("@opentelemetry/sdk-trace");

  const bare = sorted(await loadedByServe({ routes: [] }));
  expect(bare.packages).not.toContain("undici");
});
