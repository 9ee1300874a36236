import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, onTestFinished } from "vitest";

/** Removed at the test's end; where no test runs yet, at that of its file. */
export function tempFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-test-"));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  try {
    onTestFinished(remove);
  } catch {
    afterAll(remove);
  }
  return folder;
}
