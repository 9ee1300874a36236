import { hash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { RelayError } from "../model/errors.ts";
import { takesGzip } from "./http.ts";

/*
 * The console: the files that Vite builds. A library such as @fastify/static would cost 80 ms of each start, and few
 * requests come here.
 */

/** In a checkout, the code runs from src, and the console is built into dist. */
const builtConsole = new URL(import.meta.url.endsWith(".ts") ? "../../dist/console/" : "../console/", import.meta.url);

const page = "index.html";
/** Files below have a hash of their content in their names. */
const hashed = "assets/";

/** Nothing from elsewhere, no inline script or style, and in no frame. */
const headers = {
  "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
  "cross-origin-opener-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
} as const;

const types: Readonly<Record<string, string>> = {
  ".css": "text/css; charset=utf-8",
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".json": "application/json; charset=utf-8",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

const missingPage = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>wamid-relay</title></head>
<body><h1>The console is not built</h1>
<p>In a checkout, run <code>npm run build:console</code> and reload this page. The published package contains the console.</p>
</body></html>
`;

const compress = promisify(gzip);

interface BuiltFile {
  readonly raw: Buffer;
  readonly gzipped: Buffer;
  /** Weak: one for both encodings. */
  readonly etag: string;
}

export function addConsoleRoutes(app: FastifyInstance, folder: URL = builtConsole): void {
  const kept = new Map<string, BuiltFile>();

  async function read(name: string): Promise<BuiltFile | null> {
    const known = kept.get(name);
    if (known !== undefined) return known;
    // No part begins with a dot, so no name leads out of the folder.
    if (!/^[\w-][\w.-]*(\/[\w-][\w.-]*)*$/.test(name) || types[extname(name)] === undefined) return null;
    const raw = await readFile(new URL(name, folder)).catch(() => null);
    if (raw === null) return null;
    const file = { raw, gzipped: await compress(raw), etag: `W/"${hash("sha256", raw, "base64url")}"` };
    if (name.startsWith(hashed)) kept.set(name, file);
    return file;
  }

  async function answer(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { "*": path = "" } = request.params as { "*"?: string };
    reply.headers(headers);
    // An address of the console is any other path: the page reads it. A page of HTML for a missing script would hide the fault.
    const asked = path === "" ? null : await read(path);
    if (asked === null && path.startsWith(hashed)) throw new RelayError("not_found", "no such file; reload the console");
    const [name, file] = asked === null ? [page, await read(page)] : [path, asked];
    if (file === null)
      return reply
        .code(503)
        .header("cache-control", "no-store")
        .type(types[".html"] as string)
        .send(missingPage);
    reply
      .header("vary", "accept-encoding")
      .header("etag", file.etag)
      .header("cache-control", name.startsWith(hashed) ? "public, max-age=31536000, immutable" : "no-cache");
    if (request.headers["if-none-match"]?.includes(file.etag)) return reply.code(304).send();
    const isGzipped = takesGzip(request);
    if (isGzipped) reply.header("content-encoding", "gzip");
    return reply.type(types[extname(name)] as string).send(isGzipped ? file.gzipped : file.raw);
  }

  app.get("/console", answer);
  app.get("/console/*", answer);
}
