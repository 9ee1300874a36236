import type { UrlOutcome } from "./destination.ts";

/**
 * Texts with which apps answer 200 to a webhook of Meta that they dropped. Read in their sources on the date; newer versions may
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

/** Makes a 2xx answer a failure when its body has one of the texts. Only the part that is kept with an attempt is searched. */
export function createRejection({ preset, contains = [] }: FailIfBody): (outcome: UrlOutcome) => UrlOutcome {
  const texts = [...(preset === undefined ? [] : rejectionPresets[preset].texts), ...contains];
  return (outcome) => {
    const { result, response } = outcome;
    if (response === null || result.kind !== "answered" || result.status < 200 || result.status >= 300) return outcome;
    return texts.some((text) => response.includes(text)) ? { ...outcome, result: { kind: "failed", error: "rejected" } } : outcome;
  };
}
