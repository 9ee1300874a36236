import { build } from "vite";

/** Builds the console once, before the tests that open it in a browser. */
export async function setup(): Promise<void> {
  await build({
    configFile: new URL("../../src/console/vite.config.ts", import.meta.url).pathname,
    logLevel: "warn",
  });
}
