// @module-tag slow: it starts a real Prometheus and waits for the rates of several scrapes.
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { openDownstream } from "../harness/downstream.ts";
import { codeBlocks, readPage } from "../harness/pages.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { startProgram } from "../harness/program.ts";
import { startRelayHere } from "../harness/relay-here.ts";
import { relayToken, routeTo } from "../harness/relay-settings.ts";
import { tempFolder } from "../harness/temp-folder.ts";
import { until } from "../harness/until.ts";
import { findProgram } from "../setup/find-program.ts";
import { freePort } from "../setup/free-port.ts";

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string }[];
}

const run = promisify(execFile);
const folder = new URL("../../deploy/", import.meta.url).pathname;
const rulesFile = join(folder, "prometheus/wamid-relay.rules.yaml");
const rules = readFileSync(rulesFile, "utf8");
const dashboard = readFileSync(join(folder, "grafana/wamid-relay.json"), "utf8");
const { panels } = JSON.parse(dashboard) as { readonly panels: readonly Panel[] };
const queries = panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ title, expr })),
);

test("promtool accepts the rules, and their unit tests pass", async () => {
  const promtool = findProgram("promtool", { package: "prometheus" });
  await run(promtool, ["check", "rules", rulesFile]);
  await run(promtool, ["test", "rules", join(folder, "prometheus/wamid-relay.tests.yaml")]);
  const cases = readFileSync(join(folder, "prometheus/wamid-relay.tests.yaml"), "utf8");
  for (const [, alert] of rules.matchAll(/- alert: (\w+)/g)) {
    expect(cases).toContain(`name: ${alert} fires`);
    expect(cases).toContain(`name: ${alert} stays quiet`);
  }
});

test("promtool accepts each scrape example of the how-to page", async () => {
  const promtool = await findProgram("promtool", { package: "prometheus" });
  const examples = codeBlocks(readPage("docs/how-to/monitor-and-alert.md"), "yaml prometheus");
  expect(examples).toHaveLength(3);
  const home = tempFolder();
  writeFileSync(join(home, "wamid-relay.rules.yaml"), rules);
  for (const config of examples) {
    // Debian builds Prometheus without the discovery of Kubernetes.
    writeFileSync(
      join(home, "prometheus.yml"),
      config.replace(/kubernetes_sd_configs:\n +- role: pod/, "static_configs: []"),
    );
    await run(promtool, ["check", "config", join(home, "prometheus.yml")]);
  }
});

test("every relay metric of the rules and the dashboard is in docs/reference/metrics.md", () => {
  const known = new Set(
    [...readPage("docs/reference/metrics.md").matchAll(/^\| `(relay_\w+)` \|/gm)].map(
      ([, name]) => name,
    ),
  );
  const used = new Set(
    [rules, ...queries.map(({ expr }) => expr)].flatMap((text) => text.match(/\brelay_\w+/g) ?? []),
  );
  expect(used.size).toBeGreaterThan(30);
  const base = (name: string) =>
    known.has(name) ? name : name.replace(/_(bucket|sum|count)$/, "");
  expect([...used].filter((name) => !known.has(base(name)))).toEqual([]);
});

test("Prometheus scrapes a relay under load: no lint, no failing rule, data for every query of the dashboard, and alerts for what the console lists", async () => {
  const downstream = await openDownstream();
  downstream.fail({ status: 401 }, "/refused");
  const [port, controlPort] = [await freePort(), await freePort()];
  const relay = await startRelayHere({
    settings: {
      server: { control: { port: controlPort } },
      accounts: { main: { baseUrl: "http://127.0.0.1:1", apiKey: "the-key-of-an-account" } },
      // Each is dead before Prometheus scrapes for the first time.
      routes: [
        routeTo(downstream.url),
        routeTo(`${downstream.url}/refused`, {
          name: "refused",
          to: { retry: { schedule: ["0s"] } },
        }),
      ],
    },
  });
  const load = startLoad(relay.webhookUrl);
  await startPrometheus(port, controlPort);

  const ask = async (path: string) =>
    ((await (await fetch(`http://127.0.0.1:${port}/api/v1/${path}`)).json()) as { data: unknown })
      .data;
  /** A query that gives NaN only has no data. */
  const isEmpty = async (expr: string): Promise<boolean> => {
    const filled = expr.replaceAll("$__rate_interval", "15s").replaceAll("$job", "wamid-relay");
    const { result } = (await ask(`query?query=${encodeURIComponent(filled)}`)) as {
      result: { value: [number, string] }[];
    };
    return !result.some(({ value: [, text] }) => Number.isFinite(Number(text)));
  };

  expect(queries.length).toBeGreaterThan(30);
  let empty = queries;
  await until("every query of the dashboard returns data", async () => {
    const found = await Promise.all(empty.map(({ expr }) => isEmpty(expr)));
    empty = empty.filter((_, index) => found[index]);
    return empty.length === 0;
  }).catch((error: Error) => {
    throw new Error(
      `${error.message}; without data: ${empty.map(({ title, expr }) => `${title}: ${expr}`).join("\n")}`,
    );
  });
  // A query of a metric that does not exist has none.
  expect(await isEmpty('relay_no_such_metric{job=~"$job"}')).toBe(true);

  const health = await until("all rules are evaluated", async () => {
    const { groups } = (await ask("rules")) as {
      groups: { rules: { name: string; health: string; lastError?: string }[] }[];
    };
    const all = groups.flatMap((group) => group.rules);
    return all.length > 0 && all.every((rule) => rule.health !== "unknown") ? all : null;
  });
  expect(health.filter((rule) => rule.health !== "ok")).toEqual([]);

  const raised = await until("the alerts of the refused deliveries", async () => {
    const { alerts } = (await ask("alerts")) as {
      alerts: { labels: Record<string, string>; state: string }[];
    };
    // On a busy machine, the other destination may be slow for a moment.
    const ofRefused = alerts.filter(({ labels }) => labels["route"] === "refused");
    return ofRefused.length >= 2 ? ofRefused : null;
  });
  const overview = await (
    await fetch(`http://127.0.0.1:${controlPort}/v1/overview`, {
      headers: { authorization: `Bearer ${relayToken}` },
    })
  ).json();
  const { attention } = overview as { attention: { kind: string; subject: string }[] };
  const listed = attention.filter(({ subject }) => subject === "refused").map(({ kind }) => kind);
  expect(listed).toEqual(["destination-failing", "dead-letters"]);
  expect(
    raised.map(({ labels, state }) => [labels["alertname"], labels["route"], state]).toSorted(),
  ).toEqual([
    ["RelayDeadLetters", "refused", "firing"],
    ["RelayDestinationFailing", "refused", expect.stringMatching(/^(pending|firing)$/)],
  ]);

  const promtool = findProgram("promtool", { package: "prometheus" });
  const page = await (await fetch(`http://127.0.0.1:${controlPort}/metrics`)).text();
  expect(await lint(promtool, page)).toEqual([]);
  expect(await lint(promtool, "# TYPE relay_nameless gauge\nrelay_nameless 1\n")).not.toEqual([]);
  expect(await load.stop()).toBeGreaterThan(100);
});

/** What promtool finds in the relay's own metrics; those of the client library are its own. */
function lint(promtool: string, page: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const child = execFile(promtool, ["check", "metrics"], (error, stdout, stderr) => {
      const lines = `${stdout}${stderr}`.split("\n").filter((line) => line !== "");
      if (error !== null && error.code !== 3) reject(new Error(lines.join("\n")));
      else resolve(lines.filter((line) => line.startsWith("relay_")));
    });
    child.stdin?.end(page);
  });
}

/** Posts events until `stop`, which resolves with how many were accepted. */
function startLoad(url: string): { stop(): Promise<number> } {
  const messages = createMessages("prometheus");
  let accepted = 0;
  let isOver = false;
  const posting = (async () => {
    while (!isOver) {
      const posted = await Promise.all(
        Array.from({ length: 8 }, () => postEvent(url, messages.event())),
      );
      accepted += posted.filter(({ word }) => word === "accepted").length;
    }
  })().catch(() => {});
  const stop = async () => {
    isOver = true;
    await posting;
    return accepted;
  };
  onTestFinished(async () => void (await stop()));
  return { stop };
}

async function startPrometheus(port: number, target: number): Promise<void> {
  const home = tempFolder();
  const config = {
    global: { scrape_interval: "1s", evaluation_interval: "1s" },
    rule_files: [rulesFile],
    scrape_configs: [
      { job_name: "wamid-relay", static_configs: [{ targets: [`127.0.0.1:${target}`] }] },
    ],
  };
  writeFileSync(join(home, "prometheus.yml"), JSON.stringify(config));
  const args = [
    `--config.file=${home}/prometheus.yml`,
    `--storage.tsdb.path=${home}/data`,
    `--web.listen-address=127.0.0.1:${port}`,
  ];
  const prometheus = startProgram(findProgram("prometheus"), args);
  await prometheus.until(
    "it is ready",
    async () => (await fetch(`http://127.0.0.1:${port}/-/ready`).catch(() => null))?.status === 200,
  );
}
