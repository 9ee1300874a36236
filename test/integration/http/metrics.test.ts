import { expect, test } from "vitest";
import { createMetrics } from "../../../src/observe/metrics.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { readPage } from "../../harness/pages.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo, webhookSecret } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { freshEvent } from "./alive.ts";
import { ask } from "./raw-client.ts";

const { described } = createMetrics({ version: "", node: "", storage: "sqlite" });

test("a scrape has every described metric with its type and labels, and no other", async () => {
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
  await ask(relay.port, {
    body: JSON.stringify(
      freshEvent({ wamid, status: "sent", to: "+5491155550001" }, "message.status"),
    ),
  });
  await until("it is delivered", () => downstream.counts().taken === 1);
  const text = String((await relay.ask("/metrics")).body);

  const types = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = "", type]) => ({
    name,
    type,
  }));
  const ours = types.filter(({ name }) => name.startsWith("relay_"));
  expect(
    described
      .map(({ name, type }) => ({ name, type }))
      .toSorted((a, b) => a.name.localeCompare(b.name)),
  ).toEqual(ours.toSorted((a, b) => a.name.localeCompare(b.name)));
  // The others are Node's, as the page says of them in general.
  expect(types.filter(({ name }) => !/^(relay|process|nodejs)_/.test(name))).toEqual([]);
  const page = readPage("docs/reference/metrics.md");
  for (const name of page.match(/`(process|nodejs)_\w+[a-z]`/g) ?? [])
    expect(types.map((type) => `\`${type.name}\``)).toContain(name);

  for (const { name, labelNames } of described) {
    const series = new RegExp(`^${name}(?:_sum)?(?:\\{(.*)\\})? `, "m").exec(text);
    if (series === null) continue;
    const shown = [...(series[1] ?? "").matchAll(/(\w+)="/g)].map((match) => match[1]);
    expect([name, ...shown]).toEqual([name, ...labelNames]);
  }
  expect(text).not.toContain(wamid);
  expect(text).not.toContain("5491155550001");
  expect(text).not.toContain(webhookSecret);
  expect(text).not.toContain("the-key-of-an-account");
  expect(text).toContain('relay_service_slots_limit{account="main",cap="messages"} 30');
});
