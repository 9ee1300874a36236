import { expect, test } from "vitest";
import { longestWaitMs } from "../../harness/until.ts";
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
  expect([...(await stage.statuses()).values()].toSorted()).toEqual([...Array.from({ length: 12 }, () => "pending"), "sent"]);
  // Past the grace that a webhook has.
  for (let n = 0; n < 12; n += 1) stage.clock.jump(15_000);
  const metrics = await (await fetch(`${stage.url}/metrics`)).text();
  expect(metrics).toContain('relay_webhooks_missed_total{account="main"} 1\n');
  expect(metrics).toContain('relay_silence{account="main"} 0\n');
});
