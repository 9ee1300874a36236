import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = new URL("../../..", import.meta.url).pathname;
const page = readFileSync(join(root, "docs/scaling.md"), "utf8");
const number = (text: string): number => Number(text.replaceAll(",", ""));

test("the tests and pages that docs/scaling.md names are there, and each kind of failure says how it is held", () => {
  const named = [...page.matchAll(/`((?:test|bench)\/[\w./-]+\.ts)`/g)].map(([, path = ""]) => path);
  expect(named.length).toBeGreaterThan(15);
  for (const path of named) expect(existsSync(join(root, path)), path).toBe(true);
  for (const [, link = ""] of page.matchAll(/\]\(([^)#]+)[^)]*\)/g)) expect(existsSync(join(root, "docs", link)), link).toBe(true);
  const failures = page.slice(page.indexOf("## What happens"), page.indexOf("## Changing"));
  const rows = [...failures.matchAll(/^\| (?!what fails|---)(.+?) \| .+ \| .+ \| (.+) \|$/gm)];
  expect(rows.length).toBeGreaterThan(15);
  for (const [, failure, held] of rows) expect(`${failure}: ${held}`).toMatch(/`test\/|believed/);
});

test("its products are right", () => {
  const products = [...page.matchAll(/([\d,.]+) M (?:messages )?× ([\d,]+) B(?: × (\d+) days)? = ([\d.]+) GB/g)];
  expect(products.length).toBeGreaterThanOrEqual(6);
  for (const [text, millions = "", bytes = "", days = "1", product = ""] of products) {
    const exact = (number(millions) * number(bytes) * Number(days)) / 1000;
    expect(Math.abs(exact / Number(product) - 1), text).toBeLessThan(0.02);
  }
  const microseconds = [...page.matchAll(/^\| (?:an event accepted|the same planned|the same delivered).* \| (\d+) to (\d+) \|$/gm)];
  expect(microseconds).toHaveLength(3);
  const [least, most] = [1, 2].map((at) => microseconds.reduce((sum, match) => sum + Number(match[at]), 0)) as [number, number];
  expect(page).toContain(`takes ${least} to ${most} µs`);
  const [, from = "", to = ""] = /at some ([\d,]+) to ([\d,]+) of them a second/.exec(page) ?? [];
  expect([1e6 / number(from) / most, 1e6 / number(to) / least].map((share) => share.toFixed(1))).toEqual(["1.0", "1.0"]);
});
