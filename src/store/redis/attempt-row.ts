import type { Attempt } from "../../event/delivery.ts";

/** An attempt as it is kept: `<JSON>\n<bytes of the response>`; without a response there is no line's end. */
export function writeAttempt({ at, tookMs, result, response }: Attempt): Buffer | string {
  const status = result.kind === "answered" ? result.status : null;
  const error = result.kind === "failed" ? result.error : null;
  const head = JSON.stringify([at, Math.round(tookMs), status, error]);
  return response === null ? head : Buffer.concat([Buffer.from(`${head}\n`), response]);
}

export interface KeptAttempt {
  readonly number: number;
  /** Unix ms. */
  readonly at: number;
  readonly tookMs: number;
  readonly status: number | null;
  readonly error: string | null;
  readonly response: Buffer | null;
}

export function readAttempt(number: number, kept: Buffer): KeptAttempt {
  const end = kept.indexOf(0x0a);
  const head = JSON.parse(kept.subarray(0, end < 0 ? kept.length : end).toString("utf8")) as [number, number, number | null, string | null];
  const [at, tookMs, status, error] = head;
  return { number, at, tookMs, status, error, response: end < 0 ? null : kept.subarray(end + 1) };
}
