import { expect, test } from "vitest";
import { openStage } from "./stage.ts";

const minute = 60_000;

test("pending is no news: no webhook would have told it, so that nothing goes out, and none is missed", async () => {
  const stage = await openStage();
  // Stay pending for ever; one phone more, that does not.
  await stage.send(12, "0002");
  await stage.send(1, "1234");
  stage.clock.jump(2 * minute);
  await stage.sandbox.idle();
  expect(await stage.reconcile()).toMatchObject({ asked: 13, changed: 1, unchanged: 12 });
  const { body } = await stage.ask("GET", "/v1/events");
  expect((body as { data: { origin: string; status: string }[] }).data).toMatchObject([{ origin: "reconcile" }]);
  expect([...(await stage.statuses()).values()].filter((status) => status === null)).toHaveLength(12);
});
