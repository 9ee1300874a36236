import { createHash } from "node:crypto";

/** Stands for what is to be sent: equal for bodies that say the same, in whatever order their keys come. SHA-256 in hex. */
export function fingerprintOf(body: unknown): string {
  return createHash("sha256").update(canonical(body)).digest("hex");
}

/** JSON with sorted keys; what is undefined counts as not there. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const entries = Object.entries(value)
    .filter(([, item]) => item !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item)}`).join(",")}}`;
}
