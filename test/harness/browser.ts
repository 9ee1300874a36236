import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { AxeResults } from "axe-core";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { expect, onTestFinished } from "vitest";
import { findChromium } from "../setup/find-program.ts";

const axe = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");

/** The listener for the browser's console takes these as faults. */
const reportViolations = `document.addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI }) => {
  console.error("violates the content security policy: " + violatedDirective + " " + blockedURI);
});`;

let browser: Promise<Browser> | undefined;

/** One Chromium for all tests of a worker; it ends with the worker. */
async function openBrowser(): Promise<Browser> {
  browser ??= chromium.launch({
    executablePath: findChromium(),
    // As root, Chromium runs without its sandbox only.
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
    timeout: 150_000,
  });
  return browser;
}

export interface OpenPage {
  readonly page: Page;
  /** Messages of the browser's console that the test expects, such as a refused request. */
  expectMessages(pattern: RegExp): void;
}

/**
 * A page of a browser session of its own. The test fails when the page violates its content
 * security policy, throws, logs an error that the test does not expect, or requests anything from
 * another origin than `url`.
 */
export async function openPage(
  url: string,
  options: BrowserContextOptions = {},
): Promise<OpenPage> {
  const context = await (await openBrowser()).newContext({ baseURL: url, ...options });
  context.setDefaultTimeout(60_000);
  const faults: string[] = [];
  const expected: RegExp[] = [];
  const page = await context.newPage();
  page.on("pageerror", (error) => faults.push(`the page threw: ${error.stack}`));
  page.on("console", (message) => {
    if (message.type() === "error") faults.push(message.text());
  });
  page.on("request", (request) => {
    if (!/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== url)
      faults.push(`requested ${request.url()}`);
  });
  await page.addInitScript(reportViolations);
  onTestFinished(async () => {
    await context.close();
    expect(faults.filter((fault) => !expected.some((pattern) => pattern.test(fault)))).toEqual([]);
  });
  return { page, expectMessages: (pattern) => void expected.push(pattern) };
}

/** Fails for serious and critical findings of axe. */
export async function expectAccessible(page: Page): Promise<void> {
  // Through the debugger: the content security policy allows no other script.
  if ((await page.evaluate("typeof axe")) === "undefined") await page.evaluate(axe);
  const { violations } = await page.evaluate<AxeResults>(
    'axe.run(document, { resultTypes: ["violations"] })',
  );
  const findings = violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(
      ({ id, nodes }) =>
        `${id}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join("; ")}`,
    );
  expect(findings).toEqual([]);
}
