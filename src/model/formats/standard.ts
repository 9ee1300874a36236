import { parseEnvelope } from "../envelope.ts";
import { subjectOf } from "../event.ts";
import type { Format } from "./format.ts";

/** The messaging service's own envelope: one event in a body. */
export const standard: Format = {
  items(body, { fields }) {
    const parsed = parseEnvelope(body);
    if (!parsed.ok) return [{ body, numbers: [], content: parsed }];
    const { envelope } = parsed;
    return [{ body, numbers: [], content: { ok: true, envelope, subject: subjectOf(envelope, fields, body) } }];
  },
};
