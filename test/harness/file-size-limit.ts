import { execFileSync } from "node:child_process";

/**
 * From now on no file of the process can grow beyond `bytes` (null: any size). Writes past it fail with
 * EFBIG: for SQLite an error of the disk like any other, and Node ignores the signal that goes with it.
 */
export function limitFileSize(pid: number, bytes: number | null): void {
  // The soft limit alone, so that it can be lifted again without being root.
  execFileSync("prlimit", ["--pid", String(pid), `--fsize=${bytes ?? "unlimited"}:`]);
}
