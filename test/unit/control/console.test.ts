import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { addConsoleRoutes } from "../../../src/control/console.ts";
import { createHttp } from "../../../src/control/http.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

function consoleOf(files: Readonly<Record<string, string>>) {
  const root = tempFolder();
  writeFileSync(join(root, "secret.json"), "secret");
  const folder = join(root, "console");
  mkdirSync(join(folder, "assets"), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const http = createHttp(null, () => {});
  addConsoleRoutes(http, pathToFileURL(`${folder}/`));
  const get = async (url: string, headers: Record<string, string> = {}) => {
    const {
      statusCode: status,
      body,
      rawPayload,
      headers: got,
    } = await http.inject({ url, headers });
    return { status, body, rawPayload, headers: got };
  };
  return {
    http,
    get,
    write: (name: string, text: string) => writeFileSync(join(folder, name), text),
  };
}

const built = {
  "index.html": "<p>the page</p>",
  "icon.svg": "<svg/>",
  "assets/index-ab12.js": "run()",
  "assets/index-ab12.css": "p{}",
};

test("every path below /console is the page, with headers that forbid other sources, inline scripts and frames", async () => {
  const { get } = consoleOf(built);
  for (const path of [
    "/console",
    "/console/",
    "/console/messages/wamid%3A1",
    "/console/deep/er?x=1",
    "/console/index.html",
  ]) {
    const { status, body, headers } = await get(path);
    expect([path, status, body]).toEqual([path, 200, built["index.html"]]);
    expect(headers).toMatchObject({
      "content-type": "text/html; charset=utf-8",
      "cache-control": "no-cache",
      "content-security-policy": expect.stringMatching(
        /^default-src 'self';.* frame-ancestors 'none';/,
      ),
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
    });
    expect(headers["content-security-policy"]).not.toMatch(/unsafe|\*|data:/);
  }
});

test("hashed files are cached forever, others are not, and each has its type", async () => {
  const { get, write } = consoleOf(built);
  const forever = "public, max-age=31536000, immutable";
  const shown = async (path: string) => {
    const { status, body, headers } = await get(path);
    return [status, body, headers["content-type"], headers["cache-control"]];
  };
  expect(await shown("/console/assets/index-ab12.js")).toEqual([
    200,
    "run()",
    "text/javascript; charset=utf-8",
    forever,
  ]);
  expect(await shown("/console/assets/index-ab12.css")).toEqual([
    200,
    "p{}",
    "text/css; charset=utf-8",
    forever,
  ]);
  expect(await shown("/console/icon.svg")).toEqual([200, "<svg/>", "image/svg+xml", "no-cache"]);
  write("index.html", "<p>the next build</p>");
  expect((await get("/console")).body).toBe("<p>the next build</p>");
});

test("the relay's address alone leads to the console", async () => {
  const { status, headers } = await consoleOf(built).get("/");
  expect([status, headers["location"]]).toEqual([302, "/console/"]);
});

test("a missing script is 404 and no page", async () => {
  const { status, headers } = await consoleOf(built).get("/console/assets/index-old.js");
  expect([status, headers["content-type"]]).toEqual([404, "application/json; charset=utf-8"]);
});

test("compresses for clients that take gzip", async () => {
  const script = "run();".repeat(1_000);
  const { get } = consoleOf({ ...built, "assets/index-ab12.js": script });
  const { rawPayload, headers } = await get("/console/assets/index-ab12.js", {
    "accept-encoding": "br, gzip",
  });
  expect([headers["content-encoding"], gunzipSync(rawPayload).toString()]).toEqual([
    "gzip",
    script,
  ]);
});

test.each([
  "/console/../secret.json",
  "/console/%2e%2e/secret.json",
  "/console/..%2fsecret.json",
  "/console/assets%2f..%2f..%2fsecret.json",
])("%s leads to nothing outside the folder", async (path) => {
  expect((await consoleOf(built).get(path)).body).not.toContain("secret");
});

test("without a build, the page names the command", async () => {
  const { status, body, headers } = await consoleOf({}).get("/console/messages");
  expect([status, headers["content-type"]]).toEqual([503, "text/html; charset=utf-8"]);
  expect(body).toContain("npm run build:console");
});

test("takes GET and HEAD only", async () => {
  const { http } = consoleOf(built);
  expect(
    (await http.inject({ method: "HEAD", url: "/console/assets/index-ab12.js" })).statusCode,
  ).toBe(200);
  const refused = await http.inject({ method: "POST", url: "/console/messages" });
  expect([refused.statusCode, refused.headers["allow"]]).toEqual([405, "GET, HEAD"]);
});
