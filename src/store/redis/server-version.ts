import { StoreRefused } from "../port.ts";
import type { Redis } from "./client.ts";

/** Scripts that name their flags (`#!lua`), so that one is refused whole when memory is full or the server a replica. */
export const leastVersion = "7.0";

/** The fields of an INFO answer by name. */
export function infoFields(text: string): ReadonlyMap<string, string> {
  const lines = text.split("\r\n").filter((line) => line.includes(":") && !line.startsWith("#"));
  return new Map(lines.map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)]));
}

export function isOldVersion(version: string): boolean {
  return Number.parseInt(version, 10) < Number.parseInt(leastVersion, 10);
}

/** Throws `StoreRefused` for a server that is too old. One whose user may not ask is taken as it is. */
export async function checkVersion(client: Redis): Promise<void> {
  const text = await client.info("server").catch((error: Error) => {
    if (error.message.startsWith("NOPERM")) return "";
    throw error;
  });
  const version = infoFields(text).get("redis_version");
  if (version !== undefined && isOldVersion(version)) {
    throw new StoreRefused(`is version ${version}, and the relay needs ${leastVersion} or newer`);
  }
}
