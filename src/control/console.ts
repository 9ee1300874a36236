import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { RelayError } from "../model/errors.ts";

/*
 * The console: the files that Vite builds. A library such as @fastify/static would cost 80 ms of
 * each start, and few requests come here.
 */

/** In a checkout, the code runs from src, and the console is built into dist. */
const builtConsole = new URL(
  import.meta.url.endsWith(".ts") ? "../../dist/console/" : "../console/",
  import.meta.url,
);

const page = "index.html";
/** Files below have a hash of their content in their names. */
const hashed = "assets/";

/** Nothing from elsewhere, no inline script or style, and in no frame. */
const headers = {
  "content-security-policy":
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
  "cross-origin-opener-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
} as const;

const types: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".svg": "image/svg+xml",
};

const missingPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>wamid-relay</title></head>
<body><h1>The console is not built</h1>
<p>In a checkout, run <code>npm run build:console</code> and reload this page. The published package contains the console.</p>
</body></html>
`;

export function addConsoleRoutes(app: FastifyInstance, folder: URL = builtConsole): void {
  async function read(name: string): Promise<string | null> {
    // No part begins with a dot, so no name leads out of the folder.
    if (!/^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(name) || types[extname(name)] === undefined)
      return null;
    return readFile(new URL(name, folder), "utf8").catch(() => null);
  }

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { "*": path = "" } = request.params as { "*"?: string };
    reply.headers(headers);
    const isHashed = path.startsWith(hashed);
    const file = await read(path);
    // An address of the console is any other path: the page reads it. A page of HTML for a missing
    // script would hide the fault.
    if (file === null && isHashed)
      throw new RelayError("not_found", "no such file; reload the console");
    const text = file ?? (await read(page));
    reply.type(types[extname(file === null ? page : path)] as string);
    if (text === null) return reply.code(503).send(missingPage);
    return reply
      .header("cache-control", isHashed ? "public, max-age=31536000, immutable" : "no-cache")
      .send(text);
  }

  app.get("/", (_request, reply) => reply.redirect("/console/"));
  app.get("/console", answer);
  app.get("/console/*", answer);
}
