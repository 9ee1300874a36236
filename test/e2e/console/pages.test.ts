// @module-tag slow: it drives the console in Chromium.
import { readFileSync, writeFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { phoneInWamid } from "../../../src/model/mask.ts";
import { expectAccessible } from "../../harness/browser.ts";
import { postMessages, startConsole } from "../../harness/console.ts";
import { walkByKeyboard } from "../../harness/keyboard-walk.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { quarantine } from "../../harness/quarantine.ts";
import { until } from "../../harness/until.ts";

const table = (page: Page, name: string) => page.getByRole("table", { name, exact: true });
const dialog = (page: Page) => page.getByRole("dialog");

/** Confirms the open dialog once it shows its count, and closes it after the result. */
async function confirm(
  page: Page,
  verb: string,
  counted: string | null,
  result: string | RegExp,
): Promise<void> {
  if (counted !== null) await dialog(page).getByText(counted, { exact: true }).waitFor();
  await dialog(page).getByRole("button", { name: verb, exact: true }).click();
  await dialog(page).getByText(result).waitFor();
  await dialog(page).getByRole("button", { name: "Close" }).click();
  await dialog(page).waitFor({ state: "hidden" });
}

/** Waits until the relay has settled or tried all deliveries of `count` events. */
async function attempted(
  { downstream }: Awaited<ReturnType<typeof startConsole>>,
  count: number,
): Promise<void> {
  await until(
    `${count} arrivals at crm and history`,
    () =>
      downstream.counts("/crm").arrivals >= count &&
      downstream.counts("/history").arrivals >= count,
  );
}

test("retries one delivery, a group and a whole filter, each with its count, and the destination gets them", async () => {
  const started = await startConsole();
  const { relay, downstream, answer, open } = started;
  await postMessages(relay, 4);
  await attempted(started, 4);
  answer(200);
  // Numbers are written as in the sentences of the relay.
  const { page } = await open("deliveries?state=waiting&route=crm", { locale: "ar-EG" });
  const deliveries = table(page, "Deliveries");
  const group = table(page, "Groups of deliveries").getByRole("row").filter({ hasText: "503" });
  const grouped = (count: number) =>
    group.getByRole("cell", { name: String(count), exact: true }).waitFor();
  await grouped(4);
  await deliveries.getByRole("button", { name: "Retry" }).first().click();
  // The dialog waits for ten seconds.
  await confirm(
    page,
    "Retry",
    null,
    /^(● Delivered to crm: answered 200 |○ crm: no attempt has ended yet)/,
  );
  await until("the first retry arrived", () => downstream.counts("/crm").arrivals === 5);

  answer(503);
  await postMessages(relay, 2, "later");
  await until("the later ones arrived", () => downstream.counts("/crm").arrivals === 7);
  answer(200);
  await page.reload();
  await grouped(5);
  await group.getByRole("button", { name: "Retry" }).click();
  await confirm(page, "Retry", "5 match now.", /^[●○] 5 deliveries retried\./);
  await until("the group arrived", () => downstream.counts("/crm").arrivals === 12);
  await page.getByText("Nothing matches.").waitFor();
  await page.goto("/console/deliveries");
  await page.getByText("Each delivery has reached its destination.").waitFor();
  // The page notes its place as it leaves, and `goBack` takes that for the navigation.
  await page.goBack();
  await page.getByText("Nothing matches.").waitFor();

  answer(503);
  await postMessages(relay, 3, "last");
  await until("the last ones arrived", () => downstream.counts("/crm").arrivals === 15);
  answer(200);
  await page.reload();
  await grouped(3);
  await page.getByRole("button", { name: "Retry all that match" }).click();
  await confirm(page, "Retry", "3 match now.", /^[●○] 3 deliveries retried\./);
  await until("the whole filter arrived", () => downstream.counts("/crm").arrivals === 18);
  await page.getByText("No deliveries here").waitFor();
});

test("lists name the account where there are several, events that are none their fault, and Settings no plan without a service", async () => {
  const one = await startConsole();
  await postMessages(one.relay, 1);
  await postEvent(one.relay.webhookUrl, Buffer.from("no json"));
  const events = async () => {
    const { page } = await one.open("events");
    const list = table(page, "Events");
    await list.getByText("the body is not valid JSON").waitFor();
    return { page, titles: list.getByRole("columnheader") };
  };
  expect(await (await events()).titles.allInnerTexts()).not.toContain("Account");

  const settings = JSON.parse(readFileSync(one.relay.settingsPath, "utf8"));
  settings.accounts.other = {};
  writeFileSync(one.relay.settingsPath, JSON.stringify(settings));
  await one.relay.reload();
  const { page, titles } = await events();
  // The page reads the names of the accounts beside the rows.
  await titles.filter({ hasText: "Account" }).waitFor();
  expect((await titles.allInnerTexts()).slice(-2)).toEqual(["Account", "Received"]);

  await page.goto("/console/settings");
  const account = table(page, "Accounts").getByRole("row", { name: "other" });
  await account.getByText("no baseUrl or apiKey").waitFor();
  expect((await account.getByRole("cell").allInnerTexts()).slice(3, 5)).toEqual(["–", "–"]);
});

test("in the system's colors the current page, pressed buttons and the selected row stand out, and a long code fits", async () => {
  const { relay, open } = await startConsole();
  const posts = createMessages("long");
  const failed = posts.status(posts.wamid(), "failed");
  Object.assign(failed.data as object, { errorCode: "e".repeat(250) });
  await postEvent(relay.webhookUrl, failed);
  const { page } = await open("quality", { forcedColors: "active" });
  const codes = table(page, "Failures by error code");
  await codes.getByRole("cell", { name: /^e+$|characters/ }).waitFor();
  expect(
    await codes.evaluate((each) => each.scrollWidth <= (each.parentElement?.clientWidth ?? 0)),
  ).toBe(true);
  await page.keyboard.press("j");
  const styleOf = (selector: string, property: string) =>
    page.evaluate<string>(
      `getComputedStyle(document.querySelector("${selector}")).getPropertyValue("${property}")`,
    );
  expect(await styleOf("nav a[aria-current]", "border-bottom-color")).not.toBe(
    await styleOf("nav a:not([aria-current])", "border-bottom-color"),
  );
  expect(await styleOf("[aria-pressed=true]", "outline-style")).toBe("solid");
  expect(await styleOf("[aria-selected=true]", "outline-style")).toBe("solid");
});

test("Retry now tries a repaired destination before its breaker would", async () => {
  const { relay, downstream, answer, open } = await startConsole({
    failures: 1,
    pause: "1h",
    longest: "1h",
  });
  await postMessages(relay, 1);
  const { page } = await open("");
  const failing = page.getByRole("listitem").filter({ hasText: "crm answers 503" });
  await failing.waitFor();
  // The breaker is open: these wait without an attempt.
  await postMessages(relay, 2, "later");
  await until("the later ones are planned", () => downstream.counts("/history").arrivals === 3);
  const failed = downstream.counts("/crm").arrivals;
  answer(200);
  await failing.getByRole("button", { name: "Retry now" }).click();
  await dialog(page).getByText("To a destination that fails (crm) one goes out first.").waitFor();
  await confirm(page, "Retry", null, / retried\./);
  await until("all arrived", () => downstream.counts("/crm").arrivals === failed + 3);
  await page.getByText("All good").waitFor();
});

test("resumes a destination that answered 410, and releases a quarantined event", async () => {
  const { relay, downstream, answer, open } = await startConsole();
  const body = '{"id":"old","event":"order.paid","createdAt":1800000000,"data":{}}';
  await quarantine(relay, [Buffer.from(body)]);

  answer(410);
  await postMessages(relay, 1);
  await until("crm answered 410", () => downstream.counts("/crm").arrivals === 1);
  const { page } = await open("deliveries");
  await page
    .getByRole("list", { name: "Stopped destinations" })
    .getByRole("button", { name: "Resume" })
    .click();
  answer(200);
  await confirm(page, "Resume", null, "● crm is resumed.");
  await until("crm gets what waited", () => downstream.counts("/crm").arrivals === 2);
  await page.getByRole("list", { name: "Stopped destinations" }).waitFor({ state: "detached" });

  await until("history got the message", () => downstream.counts("/history").arrivals === 1);
  await page.getByLabel("State").selectOption("quarantined");
  const quarantined = table(page, "Quarantined events");
  await quarantined.getByText("not understood in its time").waitFor();
  await quarantined.getByRole("button", { name: "Release" }).click();
  await confirm(page, "Release", "1 matches now.", "● 1 event released.");
  await until("history gets it", () => downstream.counts("/history").arrivals === 2);
  await page.getByText("Nothing is in quarantine").waitFor();
  await postEvent(relay.webhookUrl, Buffer.from("no event"));
  await quarantined.getByRole("button", { name: "Release" }).click();
  await dialog(page).getByText("No body is a valid event, as before.").waitFor();
  expect(
    await dialog(page).getByRole("button", { name: "Release", exact: true }).isDisabled(),
  ).toBe(true);
});

test("follows events during traffic and over a restart of the relay, and shows each once", async () => {
  const { relay, open } = await startConsole();
  await postMessages(relay, 2, "before");
  const { page, expectMessages } = await open("events");
  const settings = await open("settings");
  for (const opened of [{ expectMessages }, settings]) opened.expectMessages(/ERR_|status of 50/);
  const rows = table(page, "Events").locator("tbody tr");
  const seqs = async () => (await rows.locator("td:first-child").allInnerTexts()).map(Number);
  const shows = (count: number) =>
    until(`${count} rows`, async () => (await rows.count()) === count);
  await shows(2);
  await postMessages(relay, 20, "during");
  await shows(22);
  await relay.stop();
  await page.getByText("▲ connection lost").waitFor();
  // A page whose code is not loaded yet.
  const { page: other } = settings;
  await other.getByText("▲ connection lost").waitFor();
  await other.getByRole("link", { name: "Quality" }).click();
  await other.getByText("It loads once the connection is back.").waitFor();
  // Only a connection helps.
  expect(await other.getByRole("button", { name: "Try again" }).count()).toBe(0);
  await relay.start();
  // Before the page is back: more than the stream sends at once.
  await postMessages(relay, 120, "away");
  await page.getByText("● live").waitFor();
  await postMessages(relay, 5, "after");
  await rows.filter({ hasText: /^147/ }).waitFor();
  await shows(50);
  await other.getByRole("heading", { name: "Sent, delivered, read" }).waitFor();
  expect(await seqs()).toEqual(Array.from({ length: 50 }, (_, index) => 147 - index));
  await postMessages(relay, 1, "latest");
  await page.getByText("skipped").waitFor({ state: "detached" });
});

test("finds a message by phone digits and reference, shows its timeline, and opens a link after signing in", async () => {
  const { relay, open } = await startConsole();
  const messages = createMessages("search");
  const wamid = messages.wamid();
  const reference = "order-4711";
  const tracked = await relay.ask("/v1/messages/track", {
    method: "POST",
    body: { wamid, account: "main", reference },
  });
  expect(tracked.status).toBe(200);
  for (const status of ["sent", "delivered"] as const)
    await postEvent(relay.webhookUrl, messages.status(wamid, status));
  const { page } = await open("");
  const found = new Set<string>();
  for (const asked of [reference, String(phoneInWamid(wamid)).slice(-4)]) {
    await page.getByLabel("Search", { exact: true }).fill(asked);
    await page.getByLabel("Search", { exact: true }).press("Enter");
    await page.waitForURL("**/console/messages/**");
    const timeline = page.getByRole("list", { name: "Timeline" });
    await timeline.getByText("sent", { exact: true }).waitFor();
    await timeline.getByText("delivered", { exact: true }).waitFor();
    found.add(page.url());
    await page.goto("/console/");
  }
  expect([...found]).toHaveLength(1);
  await page.goto(String([...found][0]));
  const main = page.locator("main");
  await main.getByText(/^status .delivered$/).waitFor();
  await main
    .getByText(/^wamid:[0-9a-f]{12}$/)
    .first()
    .waitFor();
  expect(await main.textContent()).not.toContain(wamid);
  expect(relay.log().filter(({ msg }) => msg === "personal data revealed")).toEqual([]);
  await page.getByRole("button", { name: "Reveal" }).click();
  await main.getByText(wamid).first().waitFor();
  await page.locator(".facts").getByText(wamid).click();
  expect(await page.evaluate("getSelection().toString()")).toBe(wamid);
  await until("a log line says who revealed it", () =>
    relay.log().find(({ msg, token }) => msg === "personal data revealed" && token === "harness"),
  );

  const link = new URL(page.url()).pathname.replace("/console/", "");
  const { page: colleague } = await open(link);
  await colleague
    .getByRole("list", { name: "Timeline" })
    .getByText("delivered", { exact: true })
    .waitFor();
  expect(new URL(colleague.url()).pathname).toBe(`/console/${link}`);

  // As if a page of the story had one event.
  await colleague.route(/limit=100/, (route) =>
    route.continue({ url: route.request().url().replace("limit=100", "limit=1") }),
  );
  await colleague.setViewportSize({ width: 390, height: 300 });
  await colleague.reload();
  const later = colleague.getByRole("button", { name: "Show later events" });
  await later.scrollIntoViewIfNeeded();
  const top = await colleague.evaluate<number>("window.scrollY");
  expect(top).toBeGreaterThan(0);
  await later.click();
  await colleague.locator(".stories > li").nth(1).waitFor();
  expect(await colleague.evaluate("window.scrollY")).toBe(top);
});

test("every page is accessible in light and dark and by the keyboard alone, none scrolls sideways, and nothing moves while it loads", async () => {
  const { relay, downstream, answer, open } = await startConsole();
  const createdAt = new Date().toISOString();
  const post = (event: object) =>
    postEvent(relay.webhookUrl, Buffer.from(JSON.stringify({ createdAt, ...event })));
  const [wamid = ""] = await postMessages(relay, 1);
  const failed = await until("crm has failed", async () => {
    const { body } = await relay.ask("/v1/deliveries?route=crm&cause=503");
    return (body as { data: { id: string }[] }).data[0];
  });
  await relay.ask(`/v1/deliveries/${encodeURIComponent(failed.id)}/retry`, { method: "POST" });
  await until("it is dead", () => downstream.counts("/crm").arrivals === 2);
  await post({
    id: "failed",
    event: "message.status",
    data: { wamid, status: "failed", errorCode: "131026" },
  });
  await post({ id: "run", event: "automation.completed", data: { runId: "a-run" } });
  await postEvent(relay.webhookUrl, Buffer.from("no event"));
  answer(410);
  await postMessages(relay, 2, "later");
  const { page } = await open("deliveries");
  await page.getByRole("list", { name: "Stopped destinations" }).waitFor();
  // Counts are up to some seconds old. An entry that comes later would move the page, and rightly.
  await until("the overview has all that needs action", async () => {
    const { attention } = (await relay.ask("/v1/overview")).body as {
      attention: { kind: string }[];
    };
    return ["destination-stopped", "dead-letters", "quarantined"].every((kind) =>
      attention.some((entry) => entry.kind === kind),
    );
  });
  await page.addInitScript(`window.shift = 0; new PerformanceObserver((list) => {
    for (const { value, hadRecentInput } of list.getEntries()) if (!hadRecentInput) window.shift += value;
  }).observe({ type: "layout-shift", buffered: true })`);
  const paths = [
    ["", "Overview"],
    ["messages", "Messages"],
    [`messages/${encodeURIComponent(wamid)}`, "Timeline"],
    ["events", "Events"],
    ["events/1", "Deliveries"],
    ["deliveries", "By destination and cause"],
    ["deliveries?state=dead", "By destination and cause"],
    ["deliveries?state=quarantined", "Quarantined events"],
    ["quality", "Quality"],
    ["runs", "Runs"],
    ["runs/a-run", "Timeline"],
    ["settings", "Settings in effect"],
    ["nowhere?period=9y", "No such page"],
  ] as const;
  const dialogs = new Map<string, readonly string[]>();
  for (const [path, heading] of paths) {
    for (const width of [390, 1280]) {
      await page.setViewportSize({ width, height: 844 });
      await page.goto(`/console/${path}`);
      await page.getByText("● live").waitFor();
      await page.getByRole("heading", { name: heading, exact: true }).waitFor();
      await page.locator(".loading").first().waitFor({ state: "detached" });
      await page.emulateMedia({
        colorScheme: width === 390 ? "light" : "dark",
        reducedMotion: "reduce",
      });
      await expectAccessible(page);
      const shift = await page.evaluate<number>("window.shift");
      expect({ path, width, shift, moves: shift >= 0.05 }).toEqual({
        path,
        width,
        shift,
        moves: false,
      });
    }
    dialogs.set(
      path,
      await walkByKeyboard(page, path === "deliveries" ? () => expectAccessible(page) : undefined),
    );
    // 640 px: as 1280 px at a zoom of 200 %.
    for (const narrow of [640, 390, 360]) {
      await page.setViewportSize({ width: narrow, height: 720 });
      await expectNarrow(page, narrow);
    }
  }
  expect(Object.fromEntries([...dialogs].filter(([, opened]) => opened.length > 0))).toMatchObject({
    "": ["Resume", "Retry now", "Release"],
    "events/1": ["Replay deliveries", "Retry", "Send again"],
    "deliveries?state=dead": ["Resume", "Retry all that match", "Retry", "Retry"],
    "deliveries?state=quarantined": ["Resume", "Release all", "Release"],
    settings: ["Reload"],
  });

  // One step of a dialog that leads to the next, and the menu.
  const isFocused = (name: string) =>
    until(`the focus is on ${name}`, () => page.locator(":focus", { hasText: name }).isVisible());
  await page.setViewportSize({ width: 1280, height: 844 });
  await page.goto("/console/deliveries?state=waiting&route=crm");
  await page.getByRole("button", { name: "Retry all that match" }).focus();
  await page.keyboard.press("Enter");
  await dialog(page)
    .getByText(/^\d+ match(es)? now\.$/)
    .waitFor();
  await dialog(page).getByRole("button", { name: "Retry", exact: true }).focus();
  await page.keyboard.press("Enter");
  await dialog(page).getByRole("button", { name: "Resume crm" }).focus();
  await page.keyboard.press("Enter");
  await dialog(page).getByRole("heading", { name: "Resume crm" }).waitFor();
  await isFocused("Resume");
  await page.keyboard.press("Escape");
  await isFocused("Retry all that match");
  const person = page.locator("details.person");
  await person.locator("summary").focus();
  await page.keyboard.press("Enter");
  for (const _ of [1, 2]) await page.keyboard.press("Tab");
  await isFocused("Sign out");
  await page.keyboard.press("Escape");
  await isFocused("harness");
  expect(await person.getAttribute("open")).toBeNull();
});

test("the keyboard alone opens pages, rows, the help and the search", async () => {
  const { relay, open } = await startConsole();
  await postMessages(relay, 1);
  const { page } = await open("");
  await page.getByRole("heading", { level: 1, name: "Overview" }).waitFor();
  await page.keyboard.press("?");
  await dialog(page).getByRole("heading", { name: "Keyboard" }).waitFor();
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({ state: "hidden" });
  // Both keys within a second and a half: a pause in between takes the second for itself.
  const goTo = (key: string, name: string) =>
    until(`g ${key} opens ${name}`, async () => {
      await page.keyboard.press("g");
      await page.keyboard.press(key);
      return page.getByRole("heading", { level: 1, name, exact: true }).isVisible();
    });
  await goTo("e", "Events");
  await table(page, "Events").getByRole("row").nth(1).waitFor();
  await page.keyboard.press("j");
  await page.locator("tr[aria-selected=true]").waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: "Event 1" }).waitFor();
  await page.keyboard.press("/");
  await page.locator("#search:focus").waitFor();
  await page.keyboard.press("Escape");
  // The first table of the page gets its rows last.
  const listed = Promise.withResolvers<void>();
  await page.route("**/v1/deliveries/groups*", async (route) => {
    await listed.promise;
    await route.continue();
  });
  await goTo("d", "Deliveries");
  const [groups, deliveries] = [table(page, "Groups of deliveries"), table(page, "Deliveries")];
  await deliveries.getByRole("row").nth(2).waitFor();
  listed.resolve();
  await groups.getByRole("row").nth(1).waitFor();
  const selected = (where: typeof groups, row: number) =>
    where.locator(`tbody tr:nth-child(${row})[aria-selected=true]`).waitFor();
  await page.keyboard.press("j");
  await selected(groups, 1);
  await page.keyboard.press("r");
  await dialog(page).getByText("1 matches now.").waitFor();
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({ state: "hidden" });
  // Past the last group comes the first delivery, and the other way round.
  await page.keyboard.press("j");
  await selected(deliveries, 1);
  await page.keyboard.press("j");
  await selected(deliveries, 2);
  for (const _ of [1, 2]) await page.keyboard.press("k");
  await selected(groups, 1);
  expect(await page.locator("tr[aria-selected=true]").count()).toBe(1);
  await page.keyboard.press("j");
  await selected(deliveries, 1);
  await page.keyboard.press("r");
  await dialog(page)
    .getByRole("heading", { name: /^Send the delivery to .* again$/ })
    .waitFor();
});

test("after a retry by the keyboard, the focus and the selection are on the row in its place", async () => {
  const started = await startConsole();
  const { relay, answer, open } = started;
  await postMessages(relay, 4);
  await attempted(started, 4);
  answer(200);
  const { page } = await open("deliveries?state=waiting&route=crm");
  const rows = table(page, "Deliveries").locator("tbody tr");
  const retried = async (open: () => Promise<void>, left: number) => {
    await open();
    await dialog(page).getByRole("button", { name: "Retry", exact: true }).press("Enter");
    // The dialog waits for ten seconds.
    await dialog(page)
      .getByText(/^(● Delivered to crm|○ crm: no attempt has ended yet)/)
      .waitFor();
    await until(`${left} are left`, async () => (await rows.count()) === left);
    // Close has the focus.
    await page.keyboard.press("Enter");
    await dialog(page).waitFor({ state: "hidden" });
  };
  await rows.nth(3).waitFor();
  await retried(() => rows.nth(1).getByRole("button").press("Enter"), 3);
  await rows.nth(1).locator("button:focus").waitFor();
  for (const _ of ["the group", 0, 1]) await page.keyboard.press("j");
  await retried(() => page.keyboard.press("r"), 2);
  await table(page, "Deliveries").locator("tr:nth-child(2)[aria-selected=true]").waitFor();
});

test("a long retry shows its progress, and stops between two steps", async () => {
  const started = await startConsole();
  const { relay, downstream, answer, open } = started;
  await postMessages(relay, 6);
  await attempted(started, 6);
  answer(200);
  const { page, expectMessages } = await open("deliveries?state=waiting&route=crm");
  const third = Promise.withResolvers<void>();
  let steps = 0;
  await page.route("**/v1/replay", async (route) => {
    const body = route.request().postDataJSON() as Record<string, unknown>;
    if (body["dryRun"] === true) return route.continue();
    steps += 1;
    if (steps === 3) await third.promise;
    if (steps === 5) return route.abort();
    await route.continue({ postData: JSON.stringify({ ...body, limit: 1 }) });
  });
  await page.getByRole("button", { name: "Retry all that match" }).click();
  await dialog(page).getByText("6 match now.").waitFor();
  await dialog(page).getByRole("button", { name: "Retry", exact: true }).click();
  await dialog(page).locator('progress[value="2"][max="6"]').waitFor();
  await dialog(page).getByText("2", { exact: true }).waitFor();
  await dialog(page).getByRole("button", { name: "Stop" }).click();
  await dialog(page).waitFor({ state: "hidden" });
  third.resolve();
  const left = table(page, "Groups of deliveries").getByRole("row").filter({ hasText: "503" });
  await left.getByRole("cell", { name: "3", exact: true }).waitFor();
  await until("the retried ones arrived", () => downstream.counts("/crm").arrivals === 9);
  expect(steps).toBe(3);

  expectMessages(/Failed to load resource/);
  await page.getByRole("button", { name: "Retry all that match" }).click();
  await dialog(page).getByText("3 match now.").waitFor();
  await dialog(page).getByRole("button", { name: "Retry", exact: true }).click();
  await dialog(page)
    .getByText(/^■ 1 done, then: no answer from /)
    .waitFor();
});

test("Reveal keeps what is masked until the clear answer is there, and Hide removes it at once", async () => {
  const { relay, open } = await startConsole();
  const [wamid = ""] = await postMessages(relay, 1);
  await postEvent(relay.webhookUrl, Buffer.from([0xff, 0xfe]));
  const { page } = await open("events/1");
  const body = page.locator("pre").first();
  for (const [path, selector] of [
    ["events/1", "pre"],
    ["events", "tbody"],
  ] as const) {
    await page.goto(`/console/${path}`);
    const shown = page.locator(selector).first();
    await shown.getByText("wamid:").waitFor();
    // Counts each moment in which the page has none.
    await page.evaluate(`window.gaps = 0; new MutationObserver(() => { if (document.querySelector("${selector}") === null) window.gaps += 1; })
      .observe(document.body, { childList: true, subtree: true });`);
    await page.getByRole("button", { name: "Reveal" }).click();
    await shown.getByText(wamid).waitFor();
    expect(await page.evaluate("window.gaps")).toBe(0);
    await page.getByRole("button", { name: "Hide" }).click();
    await shown.getByText("wamid:").waitFor();
    expect(await page.getByText(wamid).count()).toBe(0);
  }

  // Of bytes that are not UTF-8 there is no masked text to show.
  await page.goto("/console/events/2");
  await page.getByText("The bytes are not UTF-8.").waitFor();
  expect(await body.count()).toBe(0);
  await page.getByRole("button", { name: "Reveal" }).click();
  await body.getByText("//4=", { exact: true }).waitFor();
});

test("charts follow the range, failures are exported, a run has its story, and a reload shows its faults", async () => {
  const { relay, open } = await startConsole();
  const messages = createMessages("failed");
  const createdAt = new Date().toISOString();
  for (let n = 0; n < 2; n += 1) {
    const data = { wamid: messages.wamid(), status: "failed", errorCode: "131026" };
    await postEvent(
      relay.webhookUrl,
      Buffer.from(JSON.stringify({ id: `failed-${n}`, event: "message.status", createdAt, data })),
    );
  }
  const run = { id: "run-1", event: "automation.completed", createdAt, data: { runId: "a-run" } };
  await postEvent(relay.webhookUrl, Buffer.from(JSON.stringify(run)));

  const { page, expectMessages } = await open("quality");
  const row = table(page, "Failures by error code").getByRole("row").filter({ hasText: "131026" });
  await row.getByRole("cell", { name: "2", exact: true }).waitFor();
  await page.getByRole("img", { name: /error code/i }).waitFor();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Export CSV" }).click(),
  ]);
  const lines = readFileSync(await download.path(), "utf8")
    .trim()
    .split("\n");
  expect(lines.filter((line) => line.includes("131026"))).toHaveLength(1);
  expect(lines.find((line) => line.includes("131026"))).toMatch(/\b2\b/);
  await page.getByRole("button", { name: "7 d" }).click();
  await page.waitForURL(/period=7d/, { waitUntil: "commit" });
  await page.getByRole("img", { name: /error code/i }).waitFor();
  await page
    .getByRole("listitem")
    .filter({ hasText: "131026 2" })
    .getByRole("link", { name: "131026" })
    .click();
  await page.waitForURL(/\/events\?.*errorCode=131026/, { waitUntil: "commit" });
  await table(page, "Events").getByRole("row").nth(2).waitFor();
  await page.goto("/console/quality?period=7d");
  await page.getByRole("link", { name: "failed", exact: true }).click();
  await page.waitForURL(/\/messages\?status=failed&from=/, { waitUntil: "commit" });
  const linked = Date.parse(String(new URL(page.url()).searchParams.get("from")));
  expect(Math.abs(Date.now() - 7 * 86_400_000 - linked)).toBeLessThan(3_600_000);

  for (const [period, ms] of [
    ["1h", 60_000],
    ["24h", 900_000],
  ] as const) {
    await page.goto(`/console/?period=${period}`);
    const plot = page.locator(".pickable .u-over");
    await plot.hover();
    await page.getByRole("listitem").filter({ hasText: /^at / }).waitFor();
    await plot.click();
    await page.waitForURL(/\/events\?from=.*&to=/, { waitUntil: "commit" });
    const picked = new URL(page.url()).searchParams;
    expect(Date.parse(String(picked.get("to"))) - Date.parse(String(picked.get("from")))).toBe(ms);
  }

  await page.goto("/console/");
  await page
    .getByRole("listitem")
    .filter({ hasText: "routed 3" })
    .getByRole("link", { name: "routed" })
    .click();
  await page.waitForURL(/\/events\?.*disposition=routed/, { waitUntil: "commit" });
  await table(page, "Events").getByRole("row").nth(3).waitFor();

  await page.goto("/console/runs");
  await table(page, "Runs").getByRole("row").nth(1).getByRole("link").first().click();
  await page.getByRole("heading", { name: "Timeline" }).waitFor();
  await page.getByText("completed").first().waitFor();

  await page.goto("/console/settings");
  const reload = () => page.getByRole("button", { name: "Reload" }).first().click();
  await reload();
  await confirm(page, "Reload", null, "Nothing has changed.");
  const settings = JSON.parse(readFileSync(relay.settingsPath, "utf8")) as object;
  writeFileSync(relay.settingsPath, JSON.stringify({ ...settings, retires: 1 }));
  expectMessages(/status of 422/);
  await reload();
  await dialog(page).getByRole("button", { name: "Reload", exact: true }).click();
  await dialog(page)
    .getByText(/retires/)
    .waitFor();
  await page.keyboard.press("Escape");
  await page.getByText("refused").first().waitFor();
  await page.locator("main code", { hasText: "retires" }).waitFor();
});

test("an unknown message, event or run leads to the list", async () => {
  const { open } = await startConsole();
  const { page, expectMessages } = await open("");
  expectMessages(/status of 404/);
  for (const what of ["Message", "Event", "Run"]) {
    const word = what.toLowerCase();
    await page.goto(`/console/${word}s/nobody`);
    await page.getByRole("heading", { name: `No ${word} has this name` }).waitFor();
    await page.getByRole("link", { name: `All ${word}s` }).click();
    await page.getByRole("heading", { level: 1, name: `${what}s` }).waitFor();
  }
});

test("hostile text in every field of an event neither runs nor widens a page", async () => {
  const { relay, open } = await startConsole();
  const hostile =
    "<script>window.hostile=1</script><img src=x onerror=window.hostile=1>\u202e\u200f\"'&";
  const long = hostile + "x".repeat(10_000);
  const wamid = createMessages("hostile").wamid();
  const events = [
    {
      id: `${hostile}1`,
      event: hostile,
      createdAt: "2026-01-01T00:00:00.000Z",
      data: { wamid, status: hostile, errorCode: hostile, text: long },
    },
    {
      id: "evt_2",
      event: "message.status",
      createdAt: "2026-01-01T00:00:00.000Z",
      data: { wamid, status: "failed", errorCode: hostile, text: long },
    },
    {
      id: "evt_3",
      event: "message.status",
      createdAt: "2026-01-01T00:00:00.000Z",
      data: { wamid: hostile, status: long, [long]: hostile },
    },
    { id: long, event: long, createdAt: hostile, data: { runId: hostile, error: long } },
    [long],
  ];
  for (const event of events) {
    const { status } = await postEvent(relay.webhookUrl, Buffer.from(JSON.stringify(event)));
    expect([200, 202]).toContain(status);
  }
  const { page } = await open("events", { viewport: { width: 360, height: 720 } });
  const paths = [
    "",
    "events",
    "messages",
    "deliveries",
    "deliveries?state=quarantined",
    "quality",
    `messages/${encodeURIComponent(wamid)}`,
  ];
  for (const path of [...paths, ...events.map((_, index) => `events/${index + 1}`)]) {
    await page.goto(`/console/${path}`);
    await page.getByText("● live").waitFor();
    await page.getByRole("heading").first().waitFor();
    await page.getByText("Loading…").first().waitFor({ state: "detached" });
    await expectInert(page);
    if (!/^(events|messages)\/./.test(path)) continue;
    await page.getByRole("button", { name: "Reveal" }).click();
    await page.getByRole("button", { name: "Hide" }).waitFor();
    await page.getByText("window.hostile=1").first().waitFor({ state: "attached" });
    await expectInert(page);
  }
});

/** Nothing of an event's text became part of the page. */
async function expectInert(page: Page): Promise<void> {
  await expectNarrow(page);
  expect(await page.evaluate("window.hostile")).toBeUndefined();
  expect(await page.locator("main img, main script").count()).toBe(0);
}

async function expectNarrow(page: Page, most = 360): Promise<void> {
  // A chart takes its new width in the next frame.
  await until(
    `${page.url()} is ${most} px wide`,
    async () => (await page.evaluate<number>("document.documentElement.scrollWidth")) === most,
  );
}
