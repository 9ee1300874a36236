import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { defineConfig, type Plugin } from "vite";

const root = fileURLToPath(new URL(".", import.meta.url));

/** Of all files together, gzipped. */
const mostBytes = 120 * 1024;

/** Fails the build when the bundle has grown too large. */
const sizeLimit: Plugin = {
  name: "size-limit",
  generateBundle(_options, bundle) {
    const bytes = Object.values(bundle)
      .map((part) => gzipSync(part.type === "chunk" ? part.code : part.source).length)
      .reduce((sum, size) => sum + size, 0);
    if (bytes > mostBytes)
      this.error(`the console is ${bytes} bytes gzipped; the limit is ${mostBytes}`);
  },
};

export default defineConfig({
  root,
  base: "/console/",
  plugins: [sizeLimit],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../../dist/console",
    emptyOutDir: true,
    target: "es2022",
    // The content security policy allows neither inline scripts nor data URLs.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
});
