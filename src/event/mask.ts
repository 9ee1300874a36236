import { createHash } from "node:crypto";

/** A wamid for logs: short, the same each time, and without the phone number inside it. */
export function maskWamid(wamid: string): string {
  return `wamid:${createHash("sha256").update(wamid).digest("hex").slice(0, 12)}`;
}

const wamidText = /wamid\.[A-Za-z0-9+/_=-]{8,}/g;
const phoneText = /\+?\d[\d ().-]{6,}\d/g;

/** Replaces wamids and phone-like numbers inside free text, such as a downstream's answer or an error. */
export function maskText(text: string): string {
  return text.replace(wamidText, maskWamid).replace(phoneText, (digits) => (digits.replace(/\D/g, "").length >= 8 ? "[phone]" : digits));
}
