// Slow: it drives the console in Chromium.
import { expect, test } from "vitest";
import { openPage } from "../../harness/browser.ts";
import { allTokens, signIn } from "../../harness/console.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { metaChange, metaNumber, metaSource, metaStatus, postMeta } from "../../harness/meta-posts.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { relayToken, routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";

test("an unassigned event is released once its number has an account, and delivered", async () => {
  const downstream = await openDownstream();
  const settings = (accounts: object) => ({
    control: { tokens: allTokens },
    accounts: { main: {}, shop: {} },
    sources: { wa: { ...metaSource, accounts } },
    routes: [routeTo(downstream.url)],
  });
  const relay = await startRelayHere({ settings: settings({ "206540352242922": "main" }) });
  expect((await postMeta(relay, metaChange({ statuses: [metaStatus("wamid.late", "sent")] }))).status).toBe(200);

  const { page, expectMessages } = await openPage(relay.url);
  expectMessages(/status of 401/);
  await signIn(page, "events?disposition=unassigned", relayToken);
  const rows = page.getByRole("table", { name: "Events", exact: true }).locator("tbody tr");
  await rows.getByText("unassigned").waitFor();
  await rows.getByRole("link").first().click();
  await page.getByText("no account has the number").waitFor();
  const release = page.getByRole("button", { name: "Release", exact: true });
  const dialog = page.getByRole("dialog");
  const confirm = dialog.getByRole("button", { name: "Release", exact: true });
  // Its number has no account: there is nothing to release.
  await release.click();
  await dialog.getByText("Nothing matches now.").waitFor();
  expect(await confirm.isDisabled()).toBe(true);
  await dialog.getByRole("button", { name: "Cancel" }).click();

  relay.writeSettings(settings({ [metaNumber]: "shop" }));
  await relay.reload();
  await release.click();
  await confirm.click();
  await dialog.getByText("● 1 event released.").waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  await page.getByText("released", { exact: true }).first().waitFor();
  await until("it is delivered", () => downstream.counts().taken === 1);
  await page.goto("/console/events?account=shop");
  await rows.getByText("delivered").waitFor();
  expect(await rows.count()).toBe(1);
});
