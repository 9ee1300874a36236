// @module-tag slow: it drives the console in Chromium.
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import type { RelayOverview } from "../../../src/client/relay-client.ts";
import { postMessages, startConsole } from "../../harness/console.ts";
import { until } from "../../harness/until.ts";

const table = (page: Page, name: string) => page.getByRole("table", { name, exact: true });
const dialog = (page: Page) => page.getByRole("dialog");
const press = (page: Page, name: string) =>
  dialog(page).getByRole("button", { name, exact: true }).click();
const closed = async (page: Page) => {
  await press(page, "Close");
  await dialog(page).waitFor({ state: "hidden" });
};

test("Retry on the group without a cause takes that group alone", async () => {
  const { relay, open } = await startConsole({ failures: 1, pause: "1h", longest: "1h" });
  await postMessages(relay, 1);
  await until("one attempt opened the breaker", async () => {
    const { attention } = (await relay.ask("/v1/overview")).body as RelayOverview;
    return attention.some(({ kind }) => kind === "destination-failing");
  });
  await postMessages(relay, 2, "later");
  const { page } = await open("deliveries?route=crm");
  const asked: unknown[] = [];
  await page.route("**/v1/replay", (route) => {
    asked.push((route.request().postDataJSON() as { cause?: string }).cause);
    return route.continue();
  });
  const groups = table(page, "Groups of deliveries");
  await groups.getByRole("row").filter({ hasText: "503" }).waitFor();
  // With them the page has the overview, which says that crm fails.
  await page.getByLabel("State").waitFor();
  const fresh = groups
    .getByRole("row")
    .filter({ hasText: "waiting" })
    .filter({ hasNotText: "503" });
  await fresh.getByRole("button", { name: "Retry" }).click();
  await dialog(page).getByText("Everything that waits is due already.").waitFor();
  await press(page, "Retry");
  await dialog(page)
    .getByText(/What is due goes out to crm\. Attempts since: \d+ failed with 503\./)
    .waitFor();
  await closed(page);
  expect(asked).toEqual(["none", "none"]);
  await fresh.getByRole("link").first().click();
  await page.waitForURL(/cause=none/, { waitUntil: "commit" });
  const rows = table(page, "Deliveries").locator("tbody tr");
  await rows.first().waitFor();
  expect(await rows.filter({ hasText: "503" }).count()).toBe(0);
});

test("shows an attempt that a queue accepted as a success, and many attempts behind a click", async () => {
  const { relay, downstream, open } = await startConsole();
  await postMessages(relay, 1);
  await until("history got it", () => downstream.counts("/history").arrivals === 1);
  const { page } = await open("");
  await page.route("**/v1/events/1", async (route) => {
    const response = await route.fetch();
    const event = await response.json();
    for (const { attemptHistory } of event.deliveries) {
      const [attempt] = attemptHistory;
      attemptHistory.splice(
        0,
        1,
        ...Array.from({ length: 21 }, () => ({ ...attempt, status: null })),
      );
    }
    await route.fulfill({ response, json: event });
  });
  await page.goto("/console/events/1");
  const attempt = page.getByRole("listitem", { name: "Delivery to history: delivered" });
  await attempt.getByText("1 earlier attempt").waitFor();
  const accepted = attempt.locator(".attempts .status.ok").getByText("accepted");
  expect(await accepted.filter({ visible: true }).count()).toBe(20);
});

test("Retry shows the attempt's result, and lists and details begin with the dead delivery and its cause", async () => {
  const { relay, downstream, open } = await startConsole();
  await postMessages(relay, 1);
  await until("the first attempt failed", () => downstream.counts("/crm").arrivals === 1);
  const { page } = await open("deliveries?route=crm", { viewport: { width: 390, height: 844 } });
  await table(page, "Deliveries").getByText("503").first().waitFor();
  await table(page, "Deliveries").getByRole("button", { name: "Retry" }).click();
  await press(page, "Retry");
  await dialog(page)
    .getByText(/^■ crm: answered 503 after .* No attempt is left\.$/)
    .waitFor();
  await closed(page);

  await page.goto("/console/events");
  const row = table(page, "Events").locator("tbody tr");
  await row.getByText("1 dead").waitFor();
  // Nothing of a row is hidden or cut off on a phone.
  for (const text of ["1 dead", "503", "1 delivered", "message.status", "sent"]) {
    const box = await row.getByText(text, { exact: true }).boundingBox();
    expect({ text, fits: box !== null && box.x >= 0 && box.x + box.width <= 390 }).toEqual({
      text,
      fits: true,
    });
  }
  expect(await row.getByRole("time").or(row.locator("time")).first().isVisible()).toBe(true);
  await row.getByRole("link").first().click();
  await page.getByRole("heading", { level: 1, name: "Event 1" }).waitFor();
  const head = page.locator(".page-head").first();
  expect(await head.locator(".outcome").textContent()).toBe("■1 dead5031 delivered");
  expect((await page.getByRole("heading", { level: 2 }).allInnerTexts())[0]).toBe("Deliveries");
});

test("Resume says that the destination stopped again, and Retry points to it", async () => {
  const { relay, downstream, answer, open } = await startConsole();
  answer(410);
  await postMessages(relay, 2);
  await until("crm answered 410", () => downstream.counts("/crm").arrivals >= 1);
  const { page } = await open("deliveries?state=waiting&route=crm");
  const stopped = page.getByRole("list", { name: "Stopped destinations" });
  await stopped.getByText("crm is stopped").waitFor();
  expect((await stopped.textContent())?.match(/crm is stopped/g)).toHaveLength(1);
  await stopped.getByRole("button", { name: "Resume" }).click();
  await press(page, "Resume");
  await dialog(page)
    .getByText(/^■ It stopped again\. .*410/)
    .waitFor();
  await closed(page);

  await page.getByRole("button", { name: "Retry all that match" }).click();
  await dialog(page).getByText("What is due goes out once you resume crm.").waitFor();
  answer(200);
  await press(page, "Resume crm");
  await press(page, "Resume");
  await dialog(page)
    .getByText(/^● crm is resumed\./)
    .waitFor();
  await until("crm gets what waited", async () => (await table(page, "Deliveries").count()) === 0);
});

test("the header and the page share their edges on a wide screen, and filters stand in one row", async () => {
  const { open } = await startConsole();
  const { page } = await open("deliveries", { viewport: { width: 1800, height: 900 } });
  const left = async (selector: string) => (await page.locator(selector).first().boundingBox())?.x;
  expect(await left("header .brand")).toBe(await left("main h1"));
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.goto("/console/events");
  const fields = page.locator(".filters input, .filters select");
  await fields.last().waitFor();
  const tops = await Promise.all(
    (await fields.all()).map(async (field) => (await field.boundingBox())?.y),
  );
  expect(tops).toHaveLength(7);
  expect(new Set(tops).size).toBe(1);
});
