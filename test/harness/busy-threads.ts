import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/**
 * Runs `run` while all four threads of libuv's pool are blocked, as four look-ups at a silent name
 * server block them.
 */
export async function withBusyThreads<T>(run: () => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "pipes-"));
  const pipes = ["a", "b", "c", "d"].map((name) => join(folder, name));
  execFileSync("mkfifo", pipes);
  // To open a pipe for reading blocks a thread until somebody opens it for writing.
  const opening = pipes.map((path) => open(path, "r"));
  try {
    return await run();
  } finally {
    // Held until every thread is free: a thread that opens its pipe after the writer has closed
    // blocks for good.
    const writers = pipes.map((path) => openSync(path, "r+"));
    for (const file of await Promise.all(opening)) await file.close();
    for (const writer of writers) closeSync(writer);
    rmSync(folder, { recursive: true });
  }
}
