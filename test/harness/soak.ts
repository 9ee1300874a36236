/**
 * Whether the soaks run in full: `SOAK=full`, as docs/contributing/benchmarks.md says. Without it
 * they are as short as CI can bear.
 */
const isFull = process.env["SOAK"] === "full";

/** Of a soak's two sizes the one that this run has. */
export function soakSize(short: number, full: number): number {
  return isFull ? full : short;
}
