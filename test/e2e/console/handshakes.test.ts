// @module-tag slow: it drives the console in Chromium.
import { expect, test } from "vitest";
import { openPage } from "../../harness/browser.ts";
import { allTokens, limitedToken, readerToken, signIn } from "../../harness/console.ts";
import { metaSource } from "../../harness/meta-posts.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { relayToken, routeTo } from "../../harness/relay-settings.ts";
import { startHttp } from "../../integration/url-destination/downstream.ts";

test("a relay for Meta shows the command that posts Meta's sample event", async () => {
  const relay = await startRelayHere({
    settings: { control: { tokens: allTokens }, sources: { wa: metaSource } },
  });
  for (const [token, path, event] of [
    [relayToken, "", "meta.status"],
    [relayToken, "events", "meta.status"],
    // It may not know the sources.
    [limitedToken, "events", "message.status"],
  ] as const) {
    const { page, expectMessages } = await openPage(relay.url);
    expectMessages(/status of 401/);
    await signIn(page, path, token);
    await page.getByText(`wamid-relay trigger ${event}`, { exact: true }).waitFor();
  }
});

test("performs the handshake with an app, shows when it was done, and repeats it", async () => {
  let status = 200;
  const app = await startHttp(({ url }, response) => {
    response
      .writeHead(status)
      .end(new URL(url ?? "", "http://app").searchParams.get("hub.challenge"));
  });
  const routes = [
    routeTo(app.url, { name: "chatwoot", to: { verifyToken: "a-verify-token" } }),
    routeTo(app.url, { name: "plain" }),
  ];
  const relay = await startRelayHere({ settings: { control: { tokens: allTokens }, routes } });
  const open = async (token: string) => {
    const opened = await openPage(relay.url);
    opened.expectMessages(/status of 401/);
    await signIn(opened.page, "settings", token);
    return opened.page;
  };
  const page = await open(relayToken);
  const row = page.getByRole("table", { name: "Handshakes", exact: true }).locator("tbody tr");
  const act = async (verb: string, result: string) => {
    const dialog = page.getByRole("dialog");
    await row.getByRole("button", { name: verb }).click();
    await dialog.getByRole("button", { name: verb, exact: true }).click();
    await dialog.getByText(result).waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
  };
  await row.getByText("not yet").waitFor();
  expect(await row.count()).toBe(1);
  await act("Perform", "● The app accepted it.");
  await row.getByText("not yet").waitFor({ state: "detached" });
  status = 403;
  await act(
    "Repeat",
    "▲ It failed: it answered 403 with the challenge, which Meta takes as a refusal.",
  );
  expect(app.seen).toHaveLength(2);

  const reader = await open(readerToken);
  await reader
    .getByRole("table", { name: "Handshakes", exact: true })
    .getByText("chatwoot")
    .waitFor();
  expect(await reader.getByRole("button", { name: "Repeat" }).count()).toBe(0);
});
