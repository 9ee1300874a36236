import { z } from "zod";

/** Of the metadata of a message or run, which is sent with each delivery with `payload: enriched`. JSON.stringify recurses. */
export const metadataLimits = { bytes: 64 * 1024, values: 1000, levels: 16 } as const;

/** What is wrong with metadata; null: nothing. Not recursive, because `JSON.parse` accepts any depth. */
export function metadataFault(metadata: Readonly<Record<string, unknown>>): string | null {
  const { bytes, values, levels } = metadataLimits;
  let count = 0;
  let inner: object[] = [metadata];
  for (let level = 1; inner.length > 0; level++) {
    if (level > levels) return `is nested more than ${levels} levels deep`;
    const next: object[] = [];
    for (const holder of inner) {
      for (const value of Object.values(holder)) {
        count += 1;
        if (count > values) return `has more than ${values.toLocaleString("en")} keys and list entries`;
        if (typeof value === "object" && value !== null) next.push(value);
      }
    }
    inner = next;
  }
  return Buffer.byteLength(JSON.stringify(metadata)) > bytes ? `is longer than ${bytes.toLocaleString("en")} bytes as JSON` : null;
}

export const metadataSchema = z.record(z.string(), z.unknown()).superRefine((metadata, context) => {
  const fault = metadataFault(metadata);
  if (fault !== null) context.addIssue({ code: "custom", message: fault });
});
