import { isAscii, isUtf8 } from "node:buffer";
import type { UrlResult } from "../../model/delivery.ts";
import { asciiJson } from "../../model/json.ts";
import type { AttemptOutcome, OutgoingDelivery } from "./destination.ts";

/** JSON in ASCII: consumers of Meta compare media types, and some escape the body before they verify its signature. */
export function asMetaSends(delivery: OutgoingDelivery): OutgoingDelivery {
  return { ...delivery, body: asciiBody(delivery.body), contentType: "application/json" };
}

/** The other bytes are unchanged. A body that is not JSON stays as it is. */
export function asciiBody(body: Buffer): Buffer {
  if (isAscii(body) || !isUtf8(body)) return body;
  const text = body.toString("utf8");
  try {
    JSON.parse(text);
  } catch {
    return body;
  }
  return Buffer.from(asciiJson(text), "latin1");
}

/**
 * Texts with which apps answer 200 to a webhook that they dropped. Read in their sources on the date; newer versions may
 * answer otherwise.
 */
export const rejectionPresets = {
  /** Also for an update that the trigger is not set to. */
  n8n: { asOf: "2026-11-23", texts: ["Webhook call received"] },
  /** JSON-RPC. */
  odoo: { asOf: "2026-11-23", texts: ['"error"'] },
  courier: { asOf: "2026-11-23", texts: ['"message":"Error"'] },
} as const;

export type RejectionPreset = keyof typeof rejectionPresets;

interface FailIfBody {
  readonly preset?: RejectionPreset | undefined;
  readonly contains?: readonly string[] | undefined;
}

/** Only the part of the body that is kept with an attempt is searched. */
export function createRejection({ preset, contains = [] }: FailIfBody): (outcome: AttemptOutcome<UrlResult>) => AttemptOutcome<UrlResult> {
  const texts = [...(preset === undefined ? [] : rejectionPresets[preset].texts), ...contains];
  return (outcome) => {
    const { result, response } = outcome;
    if (response === null || result.kind !== "answered" || result.status < 200 || result.status >= 300) return outcome;
    return texts.some((text) => response.includes(text)) ? { ...outcome, result: { kind: "failed", error: "rejected" } } : outcome;
  };
}
