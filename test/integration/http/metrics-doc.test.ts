import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { receiveOutcomes } from "../../../src/receive/receiver.ts";
import { callPriorities } from "../../../src/service/admission.ts";
import { stopReasons } from "../../../src/service/limits/account.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo, webhookSecret } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { freshEvent } from "./alive.ts";
import { ask } from "./raw-client.ts";

const page = readFileSync(new URL("../../../docs/metrics.md", import.meta.url), "utf8");
const rows = [...page.matchAll(/^\| `(relay_\w+)` \| (\w+) \| (.*?) ?\| (.+) \|$/gm)].map(([, name, type, labels = "", meaning]) => ({
  name,
  type,
  labels: [...labels.matchAll(/`(\w+)`/g)].map((match) => match[1]),
  meaning,
}));
const tableOf = (head: string) => {
  const [, body = ""] = page.split(`| ${head} |`);
  return [...(body.split("\n\n")[0] ?? "").matchAll(/^\| `([a-z-]+)` \|/gm)].map((match) => match[1]);
};

test("the page lists every metric with its type and labels, and no other", async () => {
  const downstream = await openDownstream();
  const relay = await startRelayHere({
    settings: {
      routes: [routeTo(downstream.url)],
      retention: { events: "30d" },
      // Nobody asks the service; its gauges are there all the same.
      accounts: { main: { baseUrl: "http://127.0.0.1:1", apiKey: "the-key-of-an-account" } },
    },
  });
  const wamid = "wamid.HBgNNTQ5MTE1NTU1MDAwMRUCABEYEkQ0";
  await ask(relay.port, { body: JSON.stringify(freshEvent({ wamid, status: "sent", to: "+5491155550001" }, "message.status")) });
  await until("it is delivered", () => downstream.counts().taken === 1);
  const text = String((await relay.ask("/metrics")).body);

  const types = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = "", type]) => ({ name, type }));
  const ours = types.filter(({ name }) => name.startsWith("relay_"));
  expect(rows.map(({ name, type }) => ({ name, type })).toSorted((a, b) => String(a.name).localeCompare(String(b.name)))).toEqual(
    ours.toSorted((a, b) => a.name.localeCompare(b.name)),
  );
  // The others are Node's, as the page says of them in general.
  expect(types.filter(({ name }) => !/^(relay|process|nodejs)_/.test(name))).toEqual([]);
  for (const name of page.match(/`(process|nodejs)_\w+[a-z]`/g) ?? []) expect(types.map((type) => `\`${type.name}\``)).toContain(name);

  for (const { name, labels } of rows) {
    const series = new RegExp(`^${name}(?:_sum)?(?:\\{(.*)\\})? `, "m").exec(text);
    if (series === null) continue;
    const shown = [...(series[1] ?? "").matchAll(/(\w+)="/g)].map((match) => match[1]);
    expect([name, ...shown]).toEqual([name, ...labels]);
  }
  expect(text).not.toContain(wamid);
  expect(text).not.toContain("5491155550001");
  expect(text).not.toContain(webhookSecret);
  expect(text).not.toContain("the-key-of-an-account");
  expect(text).toContain('relay_service_slots_limit{account="main",cap="messages"} 30');
});

test("the page lists the outcomes of webhooks", () => {
  expect(tableOf("outcome of a webhook request | answer").toSorted()).toEqual(receiveOutcomes.toSorted());
  // As in the table over `decide` in src/deliver/decide.ts, from which the label is taken.
  const source = readFileSync(new URL("../../../src/deliver/decide.ts", import.meta.url), "utf8");
  const kinds = [...source.matchAll(/\{ readonly kind: "(\w+)"/g)].map((match) => match[1]);
  expect(kinds.length).toBeGreaterThan(3);
  expect(tableOf("outcome of an attempt | what follows").toSorted()).toEqual(kinds.toSorted());
});

test("the page lists the outcomes of service calls, and what the limiter rejects", () => {
  const source = readFileSync(new URL("../../../src/service/admission.ts", import.meta.url), "utf8");
  const types = [...source.matchAll(/\{ readonly type: "([a-z-]+)"/g)].map((match) => match[1]);
  expect(types.length).toBeGreaterThan(4);
  expect(tableOf("outcome of a call to the service | what the service said").toSorted()).toEqual([...types, "refused"].toSorted());
  for (const [metric, words] of [
    ["relay_service_calls_waiting", callPriorities],
    ["relay_service_stopped", stopReasons],
  ] as const) {
    const meaning = rows.find(({ name }) => name === metric)?.meaning ?? "";
    expect([...meaning.matchAll(/`([a-z-]+)`/g)].map((match) => match[1])).toEqual(words);
  }
});

test("the alerts name existing metrics", () => {
  const [, alerts = ""] = page.split("## What to be woken for");
  const named = new Set(alerts.match(/relay_\w+/g));
  expect(named.size).toBeGreaterThan(4);
  for (const name of named) expect(rows.map((row) => row.name)).toContain(name);
});
