// Preloaded into a command (--import): writes the URL of every module it loads to LOADED_MODULES, a
// line each, when it ends.
import { writeFileSync } from "node:fs";
import { registerHooks } from "node:module";

const loaded: string[] = [];
registerHooks({
  load(url, context, next) {
    loaded.push(url);
    return next(url, context);
  },
});
process.on("exit", () => writeFileSync(process.env["LOADED_MODULES"] as string, loaded.join("\n")));
