// @module-tag slow: it drives the console in Chromium.
import { setTimeout as wait } from "node:timers/promises";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { maskWamid } from "../../../src/model/mask.ts";
import { createRandom, createWamids } from "../../../src/sandbox/ids.ts";
import { postMessages, startConsole } from "../../harness/console.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { until } from "../../harness/until.ts";

const heading = (page: Page, name: string) =>
  page.getByRole("heading", { level: 1, name, exact: true });
const lists = ["messages", "events", "deliveries"] as const;

/** Two messages with an event each; the list of messages has registered ones only. */
async function twoMessages(
  relay: Awaited<ReturnType<typeof startConsole>>["relay"],
): Promise<void> {
  const wamids = await postMessages(relay, 2);
  await relay.ask("/v1/messages/track", {
    method: "POST",
    body: wamids.map((wamid) => ({ wamid })),
  });
}

test("Enter follows the focused link, with and without a selected row, and presses buttons", async () => {
  const { relay, open } = await startConsole();
  await twoMessages(relay);
  const { page } = await open("");
  for (const [path, name] of [
    ["", "Overview"],
    ["messages", "Messages"],
    ["events", "Events"],
    ["deliveries", "Deliveries"],
  ] as const) {
    await page.goto(`/console/${path}`);
    await heading(page, name).waitFor();
    if (path !== "") await page.locator("tbody tr").first().waitFor();
    for (const selects of [false, true]) {
      if (selects) {
        await page.goto(`/console/${path}`);
        await heading(page, name).waitFor();
        if (path !== "") await page.locator("tbody tr").first().waitFor();
        await page.keyboard.press("j");
        if (path !== "") await page.locator("tr[aria-selected=true]").waitFor();
      }
      await page.getByRole("navigation").getByRole("link", { name: "Settings" }).focus();
      await page.keyboard.press("Enter");
      await heading(page, "Settings").waitFor();
    }
  }
  await page.goto("/console/events");
  const pause = page.getByRole("button", { name: "Pause" });
  await pause.focus();
  await page.keyboard.press("Enter");
  await until("the list is paused", () => page.url().includes("tail=off"));
  await page.goto("/console/deliveries");
  await page.getByRole("button", { name: "Retry", exact: true }).first().focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).focus();
  await page.keyboard.press("Enter");
  await dialog.waitFor({ state: "hidden" });
});

test("search results close by Escape, from each place in them, and by a press beside them", async () => {
  const { relay, open } = await startConsole();
  const wamids = await postMessages(relay, 2);
  const body = wamids.map((wamid, n) => ({ wamid, reference: `order-${n}` }));
  await relay.ask("/v1/messages/track", { method: "POST", body });
  const { page } = await open("quality");
  const search = page.getByLabel("Search", { exact: true });
  const results = page.locator(".results");
  for (const close of [
    () => page.keyboard.press("Escape"),
    () => page.getByRole("heading", { level: 1, name: "Quality" }).click(),
  ]) {
    await search.fill("order-");
    await search.press("Enter");
    await results.getByRole("link").nth(1).focus();
    await close();
    await results.waitFor({ state: "detached" });
  }
});

test("search results without a reference are told apart by their masked wamids", async () => {
  const { relay, open } = await startConsole();
  const wamidFor = createWamids(createRandom("search"));
  const wamids = [wamidFor("5491155550100"), wamidFor("5491155550100")];
  for (const wamid of wamids)
    await postEvent(relay.webhookUrl, createMessages("search").status(wamid, "sent"));
  const { page } = await open("quality");
  const search = page.getByLabel("Search", { exact: true });
  await search.fill("0100");
  await search.press("Enter");
  for (const wamid of wamids)
    await page
      .locator(".results")
      .getByRole("link", { name: maskWamid(wamid) })
      .waitFor();
});

test("a search that failed is repeated by its button, and any by Enter", async () => {
  const { relay, open } = await startConsole();
  await postMessages(relay, 1);
  const { page, expectMessages } = await open("");
  expectMessages(/Failed to load resource/);
  await page.route("**/v1/search?*", (route) => route.abort());
  const search = page.getByLabel("Search", { exact: true });
  await search.fill("1");
  await search.press("Enter");
  await page.getByText("no answer from").waitFor();
  await page.unroute("**/v1/search?*");
  await page.getByRole("button", { name: "Try again" }).click();
  await page.waitForURL("**/console/events/1");

  await search.fill("2");
  await search.press("Enter");
  await page.getByText("No match.").waitFor();
  await postMessages(relay, 1, "later");
  await search.press("Enter");
  await page.waitForURL("**/console/events/2");
});

test("a failed read is repeated by its button, and what the page says about it stays meanwhile", async () => {
  const { relay, open } = await startConsole();
  const messages = createMessages("failed");
  await postEvent(relay.webhookUrl, messages.status(messages.wamid(), "failed"));
  const { page, expectMessages } = await open("quality");
  expectMessages(/Failed to load resource/);
  const failures = "**/v1/series?name=failures*";
  let tries = 0;
  let answered = Promise.resolve();
  await page.route(failures, async (route) => {
    tries += 1;
    await answered;
    return route.fulfill({ status: 503, body: "<h1>Service unavailable</h1>" });
  });
  await page.goto("/console/quality");
  const alert = page.getByRole("alert");
  await alert.getByText("no answer from the relay (status 503 of a proxy)").waitFor();
  await alert.evaluate((element) => element.classList.add("first"));
  const again = alert.getByRole("button", { name: "Try again" });
  const before = tries;
  const { promise, resolve } = Promise.withResolvers<void>();
  answered = promise;
  await again.click();
  await until("it is read again", () => tries > before);
  expect(await again.getAttribute("aria-busy")).toBe("true");
  resolve();
  await page.getByText("Loading…").waitFor({ state: "detached" });
  expect(await page.locator(".first").count()).toBe(1);
  await page.unroute(failures);
  await again.click();
  await page.getByRole("img", { name: "Failures by error code" }).waitFor();
  await alert.waitFor({ state: "detached" });
});

test("every list loads when answers take longer than its refresh, and the page says that it is slow", async () => {
  const { relay, open } = await startConsole();
  await twoMessages(relay);
  const { page: first } = await open("settings");
  await Promise.all(
    lists.map(async (path) => {
      const page = await first.context().newPage();
      let seen = Promise.withResolvers<void>();
      // All answers but those about the session and the stream, and meanwhile until the page was
      // seen to be slow.
      await page.route(/\/v1\/(?!session|live)/, async (route) => {
        await Promise.all([wait(6_000), seen.promise]);
        await route.continue().catch(() => {});
      });
      const status = page.getByRole("status");
      await page.goto(`/console/${path}`);
      await status.filter({ hasText: "slow: waiting for data" }).waitFor();
      seen.resolve();
      await page.locator("tbody tr").nth(1).waitFor();
      // The next read of the same list is slow, too, and its rows stay.
      seen = Promise.withResolvers();
      await status.filter({ hasText: /slow: data is \d+ s old/ }).waitFor();
      expect(await page.locator("tbody tr").count()).toBeGreaterThan(1);
      seen.resolve();
    }),
  );
});

test("eight visible tabs all show what happens, and a hidden one gives its stream up", async () => {
  const { relay, open } = await startConsole();
  await postMessages(relay, 1);
  const { page: first } = await open("events");
  const pages = [first];
  for (let n = 1; n < 8; n += 1) {
    const page = await first.context().newPage();
    pages.push(page);
    await page.goto("/console/events");
    await page.locator("tbody tr").first().waitFor();
  }
  const polling = pages.at(-1) ?? first;
  await polling.getByText("● every 5 s").waitFor();
  const hung = Promise.withResolvers<void>();
  await polling.route("**/v1/overview", async (route) => {
    await hung.promise;
    await route.continue();
  });
  await polling.getByText(/slow: data is \d+ s old/).waitFor();
  hung.resolve();
  await polling.getByText("● every 5 s").waitFor();
  await postMessages(relay, 1, "later");
  for (const page of pages) await page.locator("tbody tr").nth(1).waitFor();
  // Headless Chromium hides no page.
  const hide = (
    state: string,
  ) => `Object.defineProperty(document, "visibilityState", { configurable: true, get: () => "${state}" });
    document.dispatchEvent(new Event("visibilitychange"))`;
  await first.evaluate(hide("hidden"));
  const live = () => Promise.all(pages.map((page) => page.getByText("● live").count()));
  await first.getByText("○ connecting").waitFor();
  await first.locator(".page-head .status").getByText("connecting").waitFor();
  await until(
    "another tab takes the stream",
    async () => (await live()).filter((count) => count > 0).length === 4,
  );
  await postMessages(relay, 1, "latest");
  await first.evaluate(hide("visible"));
  for (const page of pages) await page.locator("tbody tr").nth(2).waitFor();
});

test("new events wait while somebody reads further down, and are shown once back at the top", async () => {
  const { relay, open } = await startConsole();
  await postMessages(relay, 60);
  const { page } = await open("settings", { viewport: { width: 1280, height: 600 } });
  // What comes before it is shown at the top only.
  const tail = page.waitForResponse(/\/v1\/live\?.*tail=true/);
  await page.goto("/console/events");
  await tail;
  const rows = page.locator("tbody tr");
  await rows.nth(40).getByRole("link").first().focus();
  await postMessages(relay, 3, "later");
  const waiting = page.getByRole("button", { name: "Show 3 new events" });
  await waiting.waitFor();
  expect(await rows.first().textContent()).toMatch(/^60/);
  await page.evaluate("window.scrollTo({ top: 0 })");
  await rows.filter({ hasText: /^63/ }).waitFor();
  await waiting.waitFor({ state: "detached" });
});

test("the page takes the relay's clock when the browser's is a day off", async () => {
  const { relay, downstream, open } = await startConsole();
  await twoMessages(relay);
  await until("crm has failed", () => downstream.counts("/crm").arrivals === 2);
  const { page } = await open("");
  await page.clock.install();
  for (const ms of [-86_400_000, 86_400_000]) {
    // An open page that asks at the moment of the jump names a time of the other clock once.
    await page.goto("about:blank");
    await page.clock.setSystemTime(Date.now() + ms);
    await page.goto("/console/deliveries");
    await page.getByText("● live").waitFor();
    const ages = page
      .getByRole("table", { name: "Groups of deliveries" })
      .locator("tbody tr")
      .first()
      .locator("time");
    await ages.first().waitFor();
    for (const text of await ages.allInnerTexts()) expect(text).toMatch(/^(now|\d+ (s|min) ago)$/);
    const next = page
      .getByRole("table", { name: "Deliveries", exact: true })
      .getByText(/^in \d+ (s|min)$/);
    await next.first().waitFor();
    await page.goto("/console/");
    await page.getByRole("img", { name: "Events received, by outcome: routed 2" }).waitFor();
    await page.goto("/console/quality?period=1h");
    await page.getByRole("heading", { name: "Sent, delivered, read" }).waitFor();
  }
});

test("Back returns to the filters and the place that were left, and the page names what the address cannot mean", async () => {
  const { relay, open } = await startConsole();
  await postMessages(relay, 60);
  const { page } = await open("events", { viewport: { width: 1280, height: 600 } });
  const rows = page.locator("tbody tr");
  await rows.nth(40).waitFor();
  // A page sets its title after it is shown.
  const titled = (title: string) =>
    until(`the title is ${title}`, async () => (await page.title()) === `${title} · wamid-relay`);
  await titled("Events");
  const scrolled = () => page.evaluate<number>("window.scrollY");
  await rows.nth(30).getByRole("link").first().focus();
  const left = await scrolled();
  expect(left).toBeGreaterThan(300);
  await page.keyboard.press("Enter");
  await heading(page, "Event 30").waitFor();
  await titled("Event 30");
  expect(await scrolled()).toBe(0);
  await page.goBack();
  await until("the list is where it was", async () => (await scrolled()) === left);
  await titled("Events");
  await page.locator("tr[aria-selected=true]").filter({ hasText: /^30/ }).waitFor();
  await page.reload();
  await until("the list is there after a reload", async () => (await scrolled()) === left);

  await page.goto("/console/deliveries");
  const search = (expected: string) =>
    until(`the address ends with ${expected}`, () => new URL(page.url()).search === expected);
  await page.getByLabel("State").selectOption("waiting");
  await search("?state=waiting");
  await page.getByLabel("State").selectOption("dead");
  await search("?state=dead");
  const route = page.getByLabel("Route");
  await route.press("c");
  await search("?state=dead&route=c");
  await route.press("r");
  await search("?state=dead&route=cr");
  await page.goBack();
  await search("?state=dead");
  await until("the field is empty", async () => (await route.inputValue()) === "");
  await route.press("h");
  await search("?state=dead&route=h");
  await page.goBack();
  await search("?state=dead");
  await page.goBack();
  await search("?state=waiting");
  expect(await page.getByLabel("State").inputValue()).toBe("waiting");

  await page.goto("/console/deliveries");
  await page.getByRole("link", { name: "Older →" }).click();
  await page.getByRole("link", { name: "← Newest" }).waitFor();
  const older = new URL(page.url()).search;
  const oldest = String(await rows.last().getByRole("link").textContent());
  await rows.last().getByRole("link").click();
  await heading(page, `Event ${oldest}`).waitFor();
  await page.goBack();
  await search(older);
  await page.locator("tr[aria-selected=true]").filter({ hasText: oldest }).waitFor();

  await page.goto("/console/events?disposition=xyz&status=sent");
  await page
    .getByRole("status")
    .filter({ hasText: "xyz is not a valid disposition. The page ignores it." })
    .waitFor();
  await rows.nth(40).waitFor();
  await page.getByRole("link", { name: "Clear it" }).click();
  await search("?status=sent");
  for (const invalid of [
    "?period=9y",
    "messages?before=x",
    "deliveries?from=soon",
    "runs?status=xyz",
  ]) {
    await page.goto(`/console/${invalid}`);
    await page.getByRole("link", { name: "Clear it" }).waitFor();
    expect(await page.getByRole("alert").count()).toBe(0);
  }
  for (const nowhere of ["nowhere", "events/1/2"]) {
    await page.goto(`/console/${nowhere}`);
    await heading(page, "No such page").waitFor();
    await titled("No such page");
  }
});
