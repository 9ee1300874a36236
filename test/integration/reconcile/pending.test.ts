import { expect, test } from "vitest";
import { longestWaitMs, until } from "../../harness/until.ts";
import { openStage } from "./stage.ts";

const minute = 60_000;

test("submits a polled `pending`, which counts as no missed webhook", async () => {
  const stage = await openStage();
  // Stay pending for ever; one phone more, that does not.
  await stage.send(12, "0002");
  await stage.send(1, "0003");
  stage.clock.jump(2 * minute);
  await stage.sandbox.idle(longestWaitMs);
  expect(await stage.reconcile()).toMatchObject({ polled: 13, changed: 13 });
  expect([...(await stage.statuses()).values()].toSorted()).toEqual([
    ...Array.from({ length: 12 }, () => "pending"),
    "sent",
  ]);
  let metrics = "";
  await until("the grace of a webhook is over", async () => {
    stage.clock.jump(15_000);
    metrics = await stage.metrics();
    return metrics.includes('relay_webhooks_missed_total{account="main"}');
  });
  expect(metrics).toContain('relay_webhooks_missed_total{account="main"} 1\n');
  expect(metrics).toContain('relay_silence{account="main"} 0\n');
});
