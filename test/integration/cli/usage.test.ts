import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { entry } from "../../harness/relay-process.ts";
import { runHere } from "../../harness/run-here.ts";

test.each([
  [["evnts"], "unknown command"],
  [[], "Usage: "],
  [["events"], "Usage: "],
  [["config", "chek"], "unknown command"],
  [["sandbox", "--port", "0", "--key", "short"], "--key: must be 8"],
  [["sandbox", "--port", "0", "--duplicate", "2"], "--duplicate: must be at most 1"],
  [["deliveries", "list", "--before", "x"], "x"],
  [["verify", "--secret-env", "NOT_SET_HERE", "--body", "-"], "NOT_SET_HERE"],
  [["events", "list", "--limit", "0"], "must be a whole number from 1"],
  [["events", "list", "--disposition", "lost"], "Allowed choices are routed"],
  [["deliveries", "list", "--state", "deliverd"], "Did you mean delivered?"],
  [["serve", "--role", "wrok"], "Did you mean work?"],
  [["events", "list", "--since", "soon"], "must be a duration"],
  [
    ["events", "list", "--from", "2026-11-20T08:00:00"],
    "must be a date (2026-11-20) or a time with its zone",
  ],
  [
    ["events", "list", "--since", "1h", "--from", "2026-11-20"],
    "cannot be used with option '--from <time>'",
  ],
  [["events", "list", "--to", "2026-02-31T08:00:00Z"], "must be a date"],
  [["audit", "--day", "2026-11-31"], "must be a date"],
  [
    ["replay", "--from", "2026-11-20", "--to", "2026-11-20"],
    "--to must be after --from or --since",
  ],
  [
    ["events", "list", "--since", "1h", "--to", "2026-11-20"],
    "--to must be after --from or --since",
  ],
  [
    ["events", "list", "--status", ""],
    "option '--status <word>' argument '' is invalid. It is empty; is a variable not set?",
  ],
  [["listen", "--forward-to", ""], "It is empty"],
  [["help", "evnts"], "unknown command 'evnts'"],
  [["events", "show"], "missing required argument 'event'"],
  [["events", "show", ""], "for argument 'event'. It is empty; is a variable not set?"],
  [["retry", "dlv_1", ""], "It is empty"],
  [["replay", "--state", "held"], "Allowed choices are dead"],
  [["resume"], "give exactly one of a route and --account"],
  [["resume", "failures", "--account", "main"], "give exactly one of a route and --account"],
  [["resume", "--account", ""], "It is empty"],
  [["track", "--account", "main"], "required option '--wamid <wamid>' not specified"],
  [["track", "--wamid", "wamid:caa16f1062d2"], "wamid:caa16f1062d2 is masked"],
  [["track", "--account", "main", "--wamid", "w", "--metadata", "none"], "must be key=value"],
  [["replay", "--relay", "relay.example"], "--relay takes an http or https URL"],
  [["replay", "--relay", "https://me:pass@relay.example"], "without user and password"],
  [
    ["replay", "--relay", "https://relay.example", "--token-env", "NOT_SET_HERE"],
    "the environment variable NOT_SET_HERE is not set",
  ],
  // What Node makes of bytes that are not UTF-8.
  [["send", "--to", "+5491155550100", "--text", "sali\ufffd"], "argument 5 is not valid UTF-8"],
])("reports wrong usage on stderr and exits with 2: %j", async (args, told) => {
  const { code, out, err } = await runHere(args);
  expect([code, out]).toEqual([2, ""]);
  expect(err).toContain(told);
});

// `sandbox` runs until a signal, unless nobody reads what it prints.
test.each([
  ["replay", "--help"],
  ["sandbox", "--port", "0", "--no-webhook"],
])("ends when its output is closed early: %j", async (...args) => {
  const child = spawn(process.execPath, [entry, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  child.stdout.destroy();
  let err = "";
  child.stderr.on("data", (chunk: Buffer) => {
    err += chunk;
  });
  const [code] = await once(child, "close");
  expect([code, err]).toEqual([0, ""]);
});
