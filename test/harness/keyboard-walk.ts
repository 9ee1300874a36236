import type { Page } from "playwright-core";
import { expect } from "vitest";
import { until } from "./until.ts";

/** Finds what a keyboard must reach, and notes what had the focus with a visible outline. */
const watch = `(() => {
  const reached = new Set();
  addEventListener("focusin", ({ target }) => getComputedStyle(target).outlineStyle !== "none" && reached.add(target));
  const selector = "a[href], button:not(:disabled), input, select, summary, [tabindex='0']";
  const nameOf = (element) => element.getAttribute("aria-label") ?? element.textContent.trim().slice(0, 60);
  window.walk = {
    /** Elements that no Tab has reached. */
    left: () => [...document.querySelectorAll(selector)]
      .filter((each) => each.checkVisibility({ visibilityProperty: true }) && !reached.has(each))
      .map((each) => each.tagName + " " + (each.id || nameOf(each))),
    focused: () => nameOf(document.activeElement),
    mark: () => { window.walk.marked = document.activeElement; },
    isMarked: () => document.activeElement === window.walk.marked,
  };
})()`;

const opensDialog = /^(retry|resume|release|reload|replay|send again)/i;
/** A field for a time has several stops. */
const mostTabs = 300;

/**
 * Tabs through a page: each control gets the focus, visibly. Opens each dialog with Enter, and ends
 * it with Escape; the focus returns to its button. Returns the names of these buttons. `inDialog`
 * runs in the first one.
 */
export async function walkByKeyboard(
  page: Page,
  inDialog?: () => Promise<void>,
): Promise<string[]> {
  await page.evaluate(watch);
  const opened: string[] = [];
  let left: string[] = [];
  for (let tabs = 0; tabs < mostTabs; tabs += 1) {
    await page.keyboard.press("Tab");
    left = await page.evaluate<string[]>("window.walk.left()");
    const name = await page.evaluate<string>(
      "document.activeElement.tagName === 'BUTTON' ? window.walk.focused() : ''",
    );
    if (opensDialog.test(name)) {
      await page.evaluate("window.walk.mark()");
      await page.keyboard.press("Enter");
      const dialog = page.getByRole("dialog");
      await until(`Enter on ${name} opens a dialog on ${page.url()}`, () => dialog.isVisible());
      if (opened.length === 0) await inDialog?.();
      opened.push(name);
      await page.keyboard.press("Escape");
      await page.locator("dialog").waitFor({ state: "detached" });
      await until(`the focus is on ${name} again`, () =>
        page.evaluate<boolean>("window.walk.isMarked()"),
      );
    }
    if (left.length === 0) break;
  }
  expect({ url: page.url(), left }).toEqual({ url: page.url(), left: [] });
  return opened;
}
