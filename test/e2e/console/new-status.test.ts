// Slow: it drives the console in Chromium.
import { expect, test } from "vitest";
import type { RelayMessage, RelaySeries } from "../../../src/client/relay-client.ts";
import type { MessageStatus } from "../../../src/model/statuses.ts";
import { openPage } from "../../harness/browser.ts";
import { allTokens, signIn } from "../../harness/console.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { startRelay } from "../../harness/relay-process.ts";
import { relayToken } from "../../harness/relay-settings.ts";

/*
 * What one more line in model/statuses.ts gives: `deferred` between `sent` and `failed`. A relay and a console get the line
 * when they load the table.
 */
const line = { rank: 25, stage: "open", direction: "outbound", webhook: true, error: false };

test("one more status is in the lists, the history, the quality report and the console", async () => {
  const statuses = new URL("../../../src/model/statuses.ts", import.meta.url).href;
  const preload = `import { messageStatuses } from "${statuses}"; messageStatuses.deferred = ${JSON.stringify(line)};`;
  const relay = await startRelay({
    settings: { control: { tokens: allTokens } },
    env: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}` },
  });
  const { status, wamid } = createMessages("deferred");
  const name = wamid();
  await relay.ask("/v1/messages/track", { method: "POST", body: { account: "main", wamid: name } });
  for (const word of ["sent", "deferred", "sent"]) await postEvent(relay.webhookUrl, status(name, word as MessageStatus));

  const { data } = (await relay.ask("/v1/messages?status=deferred")).body as { data: RelayMessage[] };
  expect(data).toEqual([
    expect.objectContaining({ status: "deferred", times: { sent: expect.any(String), deferred: expect.any(String) } }),
  ]);
  const { series } = (await relay.ask("/v1/series?name=transitions")).body as RelaySeries;
  expect(series.map(({ label, total }) => [label, total])).toContainEqual(["deferred", 1]);
  expect((await relay.ask("/v1/quality")).body).toMatchObject({ sent: 1, pending: 1, delivered: 0, failed: 0 });

  const { page, expectMessages } = await openPage(relay.url);
  expectMessages(/status of 401/);
  let changed = 0;
  await page.route("**/*.js", async (route) => {
    const answer = await route.fetch();
    const body = (await answer.text()).replace(/\breceived:\{rank:/, (found) => {
      changed += 1;
      return `deferred:${JSON.stringify(line)},${found}`;
    });
    await route.fulfill({ response: answer, body });
  });
  await signIn(page, "messages", relayToken);
  expect(changed).toBe(1);
  await page.getByRole("button", { name: "deferred" }).click();
  const row = page.getByRole("table", { name: "Messages" }).locator("tbody tr");
  await row.getByText("○deferred").waitFor();
  await row.getByRole("link").first().click();
  const step = page.getByRole("list", { name: "Timeline" }).getByRole("listitem").filter({ hasText: "deferred" });
  await step.getByText("no step since").waitFor();
  expect(await step.locator("svg.track.open").count()).toBe(1);
  await page.goto("/console/quality");
  await page.getByText("1 of them neither delivered nor failed yet").waitFor();
});
