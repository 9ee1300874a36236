import { execFileSync } from "node:child_process";
import { mkdtempSync, rmdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";

function mount(bytes: number): string | null {
  const folder = mkdtempSync(join(tmpdir(), "wamid-relay-tmpfs-"));
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${bytes}`, "tmpfs", folder], {
      stdio: "ignore",
    });
    return folder;
  } catch {
    rmdirSync(folder);
    return null;
  }
}

function unmount(folder: string): void {
  execFileSync("umount", ["--lazy", folder], { stdio: "ignore" });
  rmdirSync(folder);
}

/** A file system of `bytes`, gone at the test's end. */
export function mountSmallDisk(bytes: number): string {
  const folder = mount(bytes);
  if (folder === null)
    throw new Error(
      "a small tmpfs cannot be mounted here: run the tests as root, or give them CAP_SYS_ADMIN",
    );
  onTestFinished(() => unmount(folder));
  return folder;
}
