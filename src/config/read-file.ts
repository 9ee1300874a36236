import { closeSync, constants, fstatSync, openSync, readFileSync } from "node:fs";

/**
 * The bytes of a regular file. Throws an error of the file system, or one with the code `ENOTFILE` or `EFBIG`. Opening a pipe
 * that has no writer would block the relay.
 */
export function readRegularFile(path: string, largestBytes: number): Buffer {
  // Opening does not wait for a writer then. Windows has no such flag.
  const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0));
  try {
    const status = fstatSync(file);
    if (status.isDirectory()) throw fault("EISDIR");
    if (!status.isFile()) throw fault("ENOTFILE");
    const bytes = status.size > largestBytes ? null : readFileSync(file);
    if (bytes === null || bytes.length > largestBytes) throw fault("EFBIG");
    return bytes;
  } finally {
    closeSync(file);
  }
}

function fault(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(code), { code });
}

/** Far larger than any settings; a data file passed by mistake must not be parsed for minutes. */
export const largestFile = 1024 * 1024;

/** For settings and env files: `which` is "the settings file" or "the env file", `option` sets its path. */
export function readErrorText({ code }: NodeJS.ErrnoException, which: string, option: string): string {
  if (code === "ENOENT") return `file not found (${option} sets its path)`;
  if (code === "EISDIR") return `is a directory, not ${which}`;
  if (code === "ENOTFILE") return "is not a regular file. A reload reads it again, so it cannot be a pipe or a device: write a file";
  if (code === "EFBIG") return `is larger than 1 MiB: is this ${which}?`;
  if (code === "EACCES" || code === "EPERM") return "may not be read by this user";
  return `cannot be read (${code ?? "unknown error"})`;
}
