import { enableCompileCache } from "node:module";
import { setFlagsFromString } from "node:v8";
import { serveEnvironment, serveFlags, threadFlags } from "./node-flags.js";

const args = process.argv.slice(2);
const missing = missingFlags();
if (missing.length > 0 && args[0] === "serve" && !args.includes("--help") && !args.includes("-h"))
  restart(missing);
for (const flag of threadFlags) setFlagsFromString(flag);

// Compiling takes half of a start. The cache is in the user's own folder, because a person who can
// write to it can run code here. NODE_DISABLE_COMPILE_CACHE=1 turns it off.
const cache = process.env.XDG_CACHE_HOME || (process.env.HOME && `${process.env.HOME}/.cache`);
if (cache) enableCompileCache(`${cache}/wamid-relay`);

const { main } = await import("./main.ts");
process.exitCode = await main(args);

/** Flags that neither the command line nor NODE_OPTIONS sets to this or another value. */
function missingFlags() {
  const given = `${process.execArgv.join(" ")} ${process.env.NODE_OPTIONS ?? ""}`.replaceAll(
    "_",
    "-",
  );
  return serveFlags.filter(
    (flag) => !given.includes(flag.replace(/^--(no-)?/, "").replace(/=.*/, "")),
  );
}

/**
 * Replaces this process by one with the flags. The process id and standard streams stay, so
 * supervisors and signals reach it. Windows has no such call: `serve` runs without the flags there.
 * So it does with an IPC channel, which would be lost.
 */
function restart(flags) {
  if (process.platform === "win32" || process.execve === undefined || process.send !== undefined)
    return;
  // Without `--`, Node would read --env-file itself.
  process.execve(
    process.execPath,
    [process.execPath, ...process.execArgv, ...flags, "--", process.argv[1], ...args],
    {
      ...serveEnvironment,
      ...process.env,
    },
  );
}
