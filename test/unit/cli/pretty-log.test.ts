import { expect, test } from "vitest";
import { logOutput } from "../../../src/cli/pretty-log.ts";
import { createLogger } from "../../../src/observe/logger.ts";

type Format = Parameters<typeof logOutput>[0];

/** What the log prints for one line, with this setting. */
async function printed(
  format: Format,
  isTerminal: boolean,
  env: Record<string, string> = {},
  message = "listening",
): Promise<string> {
  let text = "";
  const out = {
    write: (line: string) => {
      text += line;
    },
    end: async () => {},
  };
  const log = createLogger(
    { level: "info", pii: "masked" },
    await logOutput(format, out, { isTerminal, env }),
  );
  log.info({ port: 8080, routes: ["all"] }, message);
  return text;
}

const esc = "\u001b";

test.each([
  ["auto", false],
  ["json", false],
  ["json", true],
] as const)("prints JSON lines with format %s, on a terminal: %s", async (format, isTerminal) => {
  const text = await printed(format, isTerminal);
  expect(text.endsWith("\n")).toBe(true);
  expect(JSON.parse(text)).toMatchObject({
    level: "info",
    port: 8080,
    routes: ["all"],
    msg: "listening",
  });
});

test.each([
  ["auto", true],
  ["pretty", true],
] as const)(
  "prints a readable, colored line with format %s, on a terminal: %s",
  async (format, isTerminal) => {
    const text = await printed(format, isTerminal);
    expect(text).toContain(`${esc}[32mINFO${esc}[39m: ${esc}[36mlistening`);
    expect(text.split("\n")).toHaveLength(2);
  },
);

test.each([
  ["pretty", false, {}],
  ["auto", true, { NO_COLOR: "1" }],
  ["pretty", true, { NO_COLOR: "yes" }],
  ["auto", true, { TERM: "dumb" }],
] as const)(
  "prints a readable line without colors: format %s, on a terminal: %s, environment %j",
  async (format, isTerminal, env) => {
    expect(await printed(format, isTerminal, env)).toMatch(
      /^\[\d\d:\d\d:\d\d\.\d{3}\] INFO: listening \{"port":8080,"routes":\["all"\]\}\n$/,
    );
  },
);

test("colors stay on when NO_COLOR is empty", async () => {
  expect(await printed("auto", true, { NO_COLOR: "" })).toContain(esc);
});

test("shows control characters of foreign text instead of sending them to the terminal", async () => {
  const text = await printed(
    "auto",
    true,
    { NO_COLOR: "1" },
    "answered \u001b[2Jcleared\nfake line\u202e",
  );
  expect(text).toContain("answered \\u001b[2Jcleared\\nfake line\\u202e");
  expect(text.split("\n")).toHaveLength(2);
});
