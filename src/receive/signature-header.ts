import { decodeStrictly, digestLengths } from "../event/signature-bytes.ts";
import type { SignatureScheme } from "../event/signature-scheme.ts";

/**
 * Most signatures read from one header. Senders write one per secret during a rotation; a header with
 * more is no rotation, and is refused rather than half read.
 */
export const maxSignatures = 16;

/**
 * Without the blanks around it, as HTTP means them: `trim` would also take what looks like one, such as the byte A0. No
 * regular expression: `[ \t]+$` takes quadratic time on blanks in the middle, and nobody has signed yet.
 */
function trimBlanks(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && isBlank(text, from)) from += 1;
  while (to > from && isBlank(text, to - 1)) to -= 1;
  return text.slice(from, to);
}

const isBlank = (text: string, at: number): boolean => text[at] === " " || text[at] === "\t";

/** What a signature header holds. `timestamp` is that of an entry such as `t=…`; null when there is none. */
export interface SignatureHeader {
  readonly signatures: readonly Buffer[];
  readonly timestamp: string | null;
}

/**
 * Reads the signatures in a header's value; null when there is none that the scheme could have made.
 * Every signature has exactly the digest's length. With a separator, entries of another kind (other
 * versions of the scheme) are passed over; without one the whole value must be a signature, so that a
 * header given twice, which Node joins with ", ", is refused.
 */
export function readSignatureHeader(scheme: SignatureScheme, value: string): SignatureHeader | null {
  if (scheme.separator === null) {
    const signature = readSignature(scheme, value);
    return signature === null ? null : { signatures: [signature], timestamp: null };
  }
  const timestampStart = scheme.timestamp?.in === "entry" ? `${scheme.timestamp.key}=` : null;
  const signatures: Buffer[] = [];
  let timestamp: string | null = null;
  // ", " separates as "," does: what stands around an entry does not count.
  for (const untrimmed of value.split(scheme.separator.trim() || scheme.separator)) {
    const entry = trimBlanks(untrimmed);
    if (timestampStart !== null && entry.startsWith(timestampStart)) {
      const text = entry.slice(timestampStart.length);
      if (timestamp !== null && timestamp !== text) return null;
      timestamp = text;
      continue;
    }
    const signature = readSignature(scheme, entry);
    if (signature === null) continue;
    if (signatures.length === maxSignatures) return null;
    signatures.push(signature);
  }
  return signatures.length === 0 ? null : { signatures, timestamp };
}

function readSignature(scheme: SignatureScheme, entry: string): Buffer | null {
  for (const prefix of scheme.prefixes) {
    if (!entry.startsWith(prefix)) continue;
    const bytes = decodeStrictly(prefix === "" ? entry : entry.slice(prefix.length), scheme.encoding);
    if (bytes !== null && bytes.length === digestLengths[scheme.algorithm]) return bytes;
  }
  return null;
}
