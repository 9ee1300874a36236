// Slow: it drives the console in Chromium.
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { phoneInWamid } from "../../../src/model/mask.ts";
import { postMessages, startConsole } from "../../harness/console.ts";
import { engines } from "../../harness/engines.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { until } from "../../harness/until.ts";

const table = (page: Page, name: string) => page.getByRole("table", { name, exact: true });
const dialog = (page: Page) => page.getByRole("dialog");

/** Confirms the open dialog once it shows its count, and closes it after the result. */
async function confirm(page: Page, verb: string, counted: string | null, result: string | RegExp): Promise<void> {
  if (counted !== null) await dialog(page).getByText(counted, { exact: true }).waitFor();
  await dialog(page).getByRole("button", { name: verb, exact: true }).click();
  await dialog(page).getByText(result).waitFor();
  await dialog(page).getByRole("button", { name: "Close" }).click();
  await dialog(page).waitFor({ state: "hidden" });
}

/** Waits until the relay has settled or tried all deliveries of `count` events. */
async function attempted({ downstream }: Awaited<ReturnType<typeof startConsole>>, count: number): Promise<void> {
  await until(
    `${count} arrivals at crm and history`,
    () => downstream.counts("/crm").arrivals >= count && downstream.counts("/history").arrivals >= count,
  );
}

describe.each(engines)("on %s", (engine) => {
  test("retries one delivery, a group and a whole filter, each with its count, and the destination gets them", async () => {
    const started = await startConsole(engine);
    const { relay, downstream, answer, open } = started;
    await postMessages(relay, 4);
    await attempted(started, 4);
    answer(200);
    const { page } = await open("deliveries?state=waiting&route=crm");
    const deliveries = table(page, "Deliveries");
    await deliveries.getByRole("button", { name: "Retry" }).first().click();
    await confirm(page, "Retry", null, /^● It is /);
    await until("the first retry arrived", () => downstream.counts("/crm").arrivals === 5);

    answer(503);
    await postMessages(relay, 2, "later");
    await until("the later ones arrived", () => downstream.counts("/crm").arrivals === 7);
    answer(200);
    await page.reload();
    const group = table(page, "Groups of deliveries").getByRole("row").filter({ hasText: "503" });
    await group.getByRole("cell", { name: "5", exact: true }).waitFor();
    await group.getByRole("button", { name: "Retry" }).click();
    await confirm(page, "Retry", "5 match now.", "● 5 deliveries retried.");
    await until("the group arrived", () => downstream.counts("/crm").arrivals === 12);
    await page.getByText("Nothing matches.").waitFor();

    answer(503);
    await postMessages(relay, 3, "last");
    await until("the last ones arrived", () => downstream.counts("/crm").arrivals === 15);
    answer(200);
    await page.reload();
    await page.getByRole("button", { name: "Retry all that match" }).click();
    await confirm(page, "Retry", "3 match now.", "● 3 deliveries retried.");
    await until("the whole filter arrived", () => downstream.counts("/crm").arrivals === 18);
    await page.getByText("No deliveries here").waitFor();
  });

  test("follows events during traffic and over a restart of the relay, and shows each once", async () => {
    const { relay, open } = await startConsole(engine);
    await postMessages(relay, 2, "before");
    const { page, expectMessages } = await open("events");
    expectMessages(/ERR_|status of 50/);
    const rows = table(page, "Events").locator("tbody tr");
    const seqs = async () => (await rows.locator("td:first-child").allInnerTexts()).map(Number);
    const shows = (count: number) => until(`${count} rows`, async () => (await rows.count()) === count);
    await shows(2);
    await postMessages(relay, 20, "during");
    await shows(22);
    await relay.stop();
    await page.getByText("▲ connection lost").waitFor();
    await relay.start();
    // Before the page is back.
    await postMessages(relay, 5, "away");
    await page.getByText("● live").waitFor();
    await postMessages(relay, 5, "after");
    await shows(32);
    expect(await seqs()).toEqual(Array.from({ length: 32 }, (_, index) => 32 - index));
  });

  test("finds a message by phone digits and reference, shows its timeline, and opens a link after signing in", async () => {
    const { relay, open } = await startConsole(engine);
    const messages = createMessages("search");
    const wamid = messages.wamid();
    const reference = "order-4711";
    const tracked = await relay.ask("/v1/messages/track", { method: "POST", body: { wamid, account: "main", reference } });
    expect(tracked.status).toBe(200);
    for (const status of ["sent", "delivered"] as const) await postEvent(relay.webhookUrl, messages.status(wamid, status));
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
    expect(await main.innerText()).not.toContain(wamid);
    expect(relay.log().filter(({ msg }) => msg === "personal data revealed")).toEqual([]);
    await page.getByRole("button", { name: "Reveal" }).click();
    await main.getByText(wamid).first().waitFor();
    await until("a log line says who revealed it", () =>
      relay.log().find(({ msg, token }) => msg === "personal data revealed" && token === "harness"),
    );

    const link = new URL(page.url()).pathname.replace("/console/", "");
    const { page: colleague } = await open(link);
    await colleague.getByRole("list", { name: "Timeline" }).getByText("delivered", { exact: true }).waitFor();
    expect(new URL(colleague.url()).pathname).toBe(`/console/${link}`);
  });
});
