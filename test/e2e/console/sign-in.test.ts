// @module-tag slow: it drives the console in Chromium.
import { expect, test } from "vitest";
import { openPage } from "../../harness/browser.ts";
import {
  allTokens,
  consoleSettings,
  limitedToken,
  postMessages,
  readerToken,
  signIn,
  startConsole,
} from "../../harness/console.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";

const unauthorized = /status of 401/;

test("a wrong token is refused, the right one opens the page that was asked for, and signing out ends the session", async () => {
  const { relay } = await startConsole();
  const { page, expectMessages } = await openPage(relay.url);
  expectMessages(unauthorized);
  await page.goto("/console/deliveries?state=dead");
  await page.getByLabel("Token").fill("no such token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").getByText("unknown token").waitFor();

  await signIn(page, "deliveries?state=dead", relayToken);
  await page.getByRole("heading", { level: 1, name: "Deliveries" }).waitFor();
  expect(await page.getByLabel("State").inputValue()).toBe("dead");
  expect(new URL(page.url()).search).toBe("?state=dead");
  const [cookie] = await page.context().cookies();
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: "Strict" });

  await page.getByText("harness", { exact: true }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  await page.reload();
  await page.getByLabel("Token").waitFor();
});

test("a session ends when its token changes, and survives a restart of the relay", async () => {
  const { relay, downstream, open } = await startConsole();
  const { page, expectMessages } = await open("");
  expectMessages(/status of (401|503)|ERR_CONNECTION|ERR_EMPTY|ERR_INCOMPLETE/);
  await relay.stop();
  await page.getByText("▲ connection lost").waitFor();
  await page.getByText("Not known before the connection is back").waitFor();
  await relay.start();
  await page.getByText("● live").waitFor();
  const session = "**/v1/session";
  await page.route(session, (route) => route.fulfill({ status: 503, body: "no relay" }));
  await page.reload();
  await page.getByText("(status 503 of a proxy); trying again").waitFor();
  await page.unroute(session);
  await page.getByText("● live").waitFor();

  const other = { ...allTokens[0], token: "harness-other-token" };
  relay.writeSettings(consoleSettings(downstream.url, [other]));
  await relay.reload();
  await page.getByLabel("Token").waitFor();
});

test("a one-time link signs in once", async () => {
  const { relay } = await startConsole();
  const { body } = await relay.ask("/v1/session/code", { method: "POST" });
  const { code } = body as { code: string };
  const first = await openPage(relay.url);
  await first.page.goto(`/console/#code=${code}`);
  await first.page.getByText("● live").waitFor();
  expect(first.page.url()).not.toContain(code);
  const second = await openPage(relay.url);
  second.expectMessages(unauthorized);
  await second.page.goto(`/console/#code=${code}`);
  await second.page.getByLabel("Token").waitFor();
});

test("the session ends in the page after twelve hours", async () => {
  const { open } = await startConsole();
  // A page without a period, which by this clock would begin later than now.
  const { page } = await open("settings");
  await page.clock.install();
  await page.reload();
  await page.getByText("● live").waitFor();
  await page.clock.fastForward("12:00:01");
  await page.getByText("Your session has ended").waitFor();
});

test("a token that may only read sees no action, and the relay refuses one all the same", async () => {
  const { relay, open } = await startConsole();
  await postMessages(relay, 2);
  const { page, expectMessages } = await open("deliveries", { token: readerToken });
  expectMessages(/status of 403/);
  await page
    .getByRole("table", { name: "Deliveries", exact: true })
    .getByText("crm")
    .first()
    .waitFor();
  expect(await page.getByRole("button", { name: /retry|send again|resume/i }).count()).toBe(0);
  const headers = { "content-type": "application/json", "x-wamid-relay": "console" };
  const statuses = await page.evaluate(async (sent) => {
    const post = (path: string, headers: Record<string, string>) =>
      fetch(path, { method: "POST", headers, body: "{}" });
    return [
      (await post("/v1/replay", sent)).status,
      (await post("/v1/replay", { "content-type": "application/json" })).status,
    ];
  }, headers);
  expect(statuses).toEqual([403, 403]);
});

test("a token that may not read cannot sign in, and one that loses the scope is signed out", async () => {
  const { relay, downstream, open } = await startConsole();
  const { page, expectMessages } = await open("", { token: readerToken });
  expectMessages(/status of 40[13]/);
  const sender = { name: "reader", token: readerToken, scopes: ["send"] };
  relay.writeSettings(consoleSettings(downstream.url, [sender]));
  await relay.reload();
  await page.getByText('The token "reader" lacks the scope read').waitFor();
  for (let each = 0; each < 2; each += 1) {
    await page.getByLabel("Token").fill(readerToken);
    await Promise.all([
      page.waitForResponse("**/v1/session"),
      page.getByRole("button", { name: "Sign in" }).click(),
    ]);
    await page
      .getByRole("alert")
      .getByText('The token "reader" lacks the scope read, which the console needs.')
      .waitFor();
  }
});

test("a token limited to accounts opens the pages that it may see, and sends a group again", async () => {
  const { relay, downstream, answer, open } = await startConsole();
  await postMessages(relay, 2);
  await until("crm has failed", () => downstream.counts("/crm").arrivals === 2);
  answer(200);
  const { page, expectMessages } = await open("", { token: limitedToken });
  // It counts the attempts of the whole relay after a retry.
  expectMessages(/status of 403/);
  await page.waitForURL("**/console/messages");
  expect(await page.getByRole("navigation").getByRole("link").allInnerTexts()).toEqual([
    "Messages",
    "Events",
    "Deliveries",
    "Runs",
  ]);
  await page.goto("/console/settings");
  await page.getByText("The token is limited to accounts").waitFor();
  // Somebody else's link, or the first letters of a name.
  await page.goto("/console/events?account=other");
  await page.getByRole("alert").getByText("limited to the accounts main").waitFor();
  await page.getByText("● live").waitFor();
  await page.getByLabel("Account").fill("main");
  await page.getByText("following").waitFor();
  await page.goto("/console/deliveries?state=waiting");
  const group = page.getByRole("table", { name: "Groups of deliveries" });
  await group.getByRole("cell", { name: "2", exact: true }).waitFor();
  await page.getByText("Loading…").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Retry all that match" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Retry", exact: true }).click();
  await page.getByRole("dialog").getByText("● 2 deliveries retried.").waitFor();
  await until("crm has them", () => downstream.counts("/crm").arrivals === 4);
});

test("a violation of the content security policy fails a test", async () => {
  const { relay } = await startConsole();
  const { page, expectMessages } = await openPage(relay.url);
  const seen: string[] = [];
  page.on("console", (message) => seen.push(message.text()));
  expectMessages(/content security policy/i);
  expectMessages(unauthorized);
  await page.goto("/console/");
  await page.evaluate(
    "document.head.append(Object.assign(document.createElement('script'), { textContent: '1' }))",
  );
  await until("the violation is seen", () =>
    seen.some((text) => text.startsWith("violates the content security policy: script-src")),
  );
});
