// Slow: it waits for a relay's last export, which it gives up after three seconds.
import { SpanKind } from "@opentelemetry/api";
import { expect, test } from "vitest";
import { createRedactor } from "../../../src/model/redact.ts";
import { createLogger, createPrivacy } from "../../../src/observe/logger.ts";
import { tracesSchema } from "../../../src/observe/settings.ts";
import { createTraces } from "../../../src/observe/traces.ts";
import { openCollector } from "../../harness/collector.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { expectAlive, freshEvent } from "../http/alive.ts";

const refuses = "the traces collector takes no spans; they are dropped until it does";
const works = "the traces collector takes spans again";

test("a collector that refuses spans is logged once, and once when it takes them again; events are not affected", async () => {
  let status = 403;
  const collector = await openCollector(() => status);
  const downstream = await openDownstream();
  const relay = await startRelayHere({
    settings: { routes: [routeTo(downstream.url)], traces: { endpoint: collector.url } },
  });
  for (let export_ = 1; export_ <= 3; export_ += 1) {
    expect((await postEvent(relay.webhookUrl, freshEvent())).word).toBe("accepted");
    await until("another export was refused", () => collector.count() >= export_);
  }
  await until("all are delivered", () => downstream.arrivals.length === 3);
  status = 200;
  await expectAlive(relay);
  await until("an export works", () => collector.spans.length > 0);
  await until("it is logged", () => relay.log().some(({ msg }) => msg === works));
  const lines = relay.log().filter(({ msg }) => msg === refuses || msg === works);
  expect(lines.map(({ level, msg }) => [level, msg])).toEqual([
    ["warn", refuses],
    ["info", works],
  ]);
  expect(lines[0]?.["reason"]).toContain("Forbidden");
  expect(lines[1]?.["lost"]).toBeGreaterThanOrEqual(3);
});

test("a relay stops although its collector gives no answer, with every event acknowledged and delivered", {
  tags: ["slow"],
}, async () => {
  const collector = await openCollector(() => null);
  const downstream = await openDownstream();
  const relay = await startRelayHere({
    settings: { routes: [routeTo(downstream.url)], traces: { endpoint: collector.url } },
  });
  for (let count = 0; count < 20; count += 1)
    expect((await postEvent(relay.webhookUrl, freshEvent())).word).toBe("accepted");
  await until("all are delivered", () => downstream.arrivals.length === 20);
  await relay.stop();
  expect(collector.count()).toBeGreaterThan(0);
  expect(relay.log().at(-1)?.["msg"]).toBe("stopped");
});

test("spans that wait are bounded, and the last ones are sent when it closes", async () => {
  const collector = await openCollector();
  const log = createLogger({ level: "silent", pii: "masked" }, { write: () => {} });
  const settings = { ...tracesSchema.parse({}), endpoint: collector.url };
  const traces = createTraces({
    settings,
    version: "1",
    log,
    privacy: createPrivacy("masked", createRedactor({})),
  });
  const record = (name: string, length = 5) =>
    traces.record(traces.childOf(null), () => ({
      name,
      kind: SpanKind.INTERNAL,
      parent: null,
      tookMs: 12.5,
      attributes: { text: "a".repeat(length) },
      error: "b".repeat(length),
    }));
  record("long", 5_000);
  // Short ones, as closing waits for their export for seconds only.
  for (let count = 0; count < 20_000; count += 1) record("many");
  // All but the last batches: closing gives up after three seconds.
  await until("most are exported", () => collector.spans.length >= 3_500);
  record("last");
  await traces.close();
  // The queue, and the batch that was being exported.
  expect(collector.named("many").length).toBeLessThanOrEqual(4096 + 512);
  expect(collector.named("many").length).toBeGreaterThanOrEqual(4096 - 1);
  expect(collector.named("last").length).toBeLessThanOrEqual(1);
  const [span] = collector.named("long");
  expect(String(span?.attributes["text"]).length).toBe(1_024);
  expect(span?.error?.length).toBe(1_024);
  expect(span?.tookMs).toBeCloseTo(12.5, 3);
});
