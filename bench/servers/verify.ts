import { createHmac, timingSafeEqual } from "node:crypto";
import { secret } from "../events.ts";

const prefix = "sha256=";

/**
 * What every hand-written receiver does at the least: HMAC-SHA256 over the raw body, compared in
 * constant time.
 */
export function isSigned(body: Buffer, header: string | string[] | undefined): boolean {
  if (typeof header !== "string" || !header.startsWith(prefix)) return false;
  const given = Buffer.from(header.slice(prefix.length), "hex");
  const expected = createHmac("sha256", secret).update(body).digest();
  return given.length === expected.length && timingSafeEqual(given, expected);
}

export const accepted = '{"status":"accepted"}';
export const refused = '{"error":"bad signature"}';
