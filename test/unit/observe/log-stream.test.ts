import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, expect, test } from "vitest";
import { logStream } from "../../../src/observe/logger.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { longestWaitMs } from "../../harness/until.ts";

let folder: string;
beforeEach(() => {
  folder = tempFolder();
});

test("writes every line in order, and all of them before the end", async () => {
  const path = join(folder, "log");
  const fd = openSync(path, "a");
  const stream = logStream(fd, longestWaitMs);
  const lines = Array.from({ length: 5_000 }, (_, n) => `line ${n} ünd ${"x".repeat(n % 300)}\n`);
  for (const [n, line] of lines.entries()) {
    stream.write(line);
    if (n % 1_000 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await stream.end();
  closeSync(fd);
  expect(readFileSync(path, "utf8")).toBe(lines.join(""));
});

test("drops lines on a full disk, without throwing, buffering or delaying the end", async () => {
  // Every write to it fails with ENOSPC.
  const fd = openSync("/dev/full", "w");
  const stream = logStream(fd);
  for (let n = 0; n < 100; n += 1) {
    for (let line = 0; line < 100; line += 1) stream.write(`${"x".repeat(1_000)}\n`);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await stream.end();
  closeSync(fd);
});

test("does not keep the process alive while the reader takes nothing", async () => {
  const script = `
    import { logStream } from ${JSON.stringify(import.meta.resolve("../../../src/observe/logger.ts"))};
    process.stdout.on("error", () => {}); // makes the pipe non-blocking, as the command line does
    const stream = logStream(1, 10);
    stream.write("x".repeat(2 ** 20));
    await stream.end();
    process.stderr.write("ended");`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", script]);
  try {
    await once(child.stderr, "data");
    await once(child, "exit", { signal: AbortSignal.timeout(longestWaitMs) });
    expect(child.exitCode).toBe(0);
  } finally {
    child.kill("SIGKILL");
  }
});
