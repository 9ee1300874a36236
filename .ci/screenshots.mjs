// Writes the pictures of README and docs: runs the demo and opens its console in Chromium.
//
//   npm run screenshots
import { spawn } from "node:child_process";
import { mkdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { findProgram } from "../test/setup/find-program.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = join(root, "docs/images");
const largest = 200_000;
const pages = [
  { name: "overview", path: "" },
  { name: "events", path: "events" },
  { name: "quality", path: "quality" },
];

const demo = spawn(
  process.execPath,
  [join(root, "src/cli/wamid-relay.js"), "demo", "--stay", "--seed", "screenshots"],
  {
    stdio: ["ignore", "pipe", "inherit"],
  },
);
const ended = new Promise((_resolve, reject) =>
  demo.once("exit", (code) => reject(new Error(`the demo ended with ${code}`))),
);
ended.catch(() => {});
let browser;
try {
  const link = await Promise.race([linkOf(demo), ended]);
  browser = await chromium.launch({
    executablePath: await findProgram("chromium"),
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });
  const context = await browser.newContext({
    viewport: { width: 1200, height: 720 },
    locale: "en-US",
    timezoneId: "UTC",
  });
  const page = await context.newPage();
  await page.goto(link);
  await page.getByText("● live").waitFor();
  mkdirSync(folder, { recursive: true });
  for (const { name, path } of [...pages, { name: "message", path: await firstMessage(page) }]) {
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.goto(new URL(path, link.replace(/#.*/, "")).href);
      await page.getByText("● live").waitFor();
      await page.waitForLoadState("load");
      await page.locator(".loading").first().waitFor({ state: "detached" });
      const file = join(folder, `${name}-${colorScheme}.png`);
      await page.screenshot({ path: file });
      const { size } = statSync(file);
      if (size >= largest)
        throw new Error(`${name}-${colorScheme}.png has ${size} bytes; the limit is ${largest}`);
      console.log(`${name}-${colorScheme}.png ${size} bytes`);
    }
  }
} finally {
  await browser?.close();
  demo.kill("SIGINT");
}

/** The demo prints it before its sums. */
async function linkOf({ stdout }) {
  let text = "";
  for await (const chunk of stdout) {
    text += chunk;
    const link = /http:\/\/\S+\/console\/#code=\S+/.exec(text)?.[0];
    if (link !== undefined) return link;
  }
  throw new Error(`the demo printed no link:\n${text}`);
}

/** A message that was read has the longest story. */
async function firstMessage(page) {
  await page.goto(new URL("messages?status=read", page.url()).href);
  return (await page.locator("tbody a").first().getAttribute("href")).replace("/console/", "");
}
