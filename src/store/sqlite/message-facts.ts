import { isDeepStrictEqual } from "node:util";
import { RelayError } from "../../event/errors.ts";
import type { MessageRow, Registration } from "./messages.ts";
import type { MessageRegistration } from "./register.ts";

/** Facts told twice, and differently, by name: `id`, `reference`, `conversationId`, `metadata.<key>`. */
export type Conflicts = Readonly<Record<string, { readonly stored: unknown; readonly given: unknown }>>;

type Facts = Omit<Registration, "at">;

/**
 * What is stored of a message together with what a registration tells. A fact that was not known is
 * added, one that is the same changes nothing, one that differs is a conflict; metadata is taken key by
 * key. The time it was sent is no such fact, because clocks differ: the earliest told counts.
 */
export function joinFacts(
  row: MessageRow,
  given: MessageRegistration,
): { readonly facts: Facts; readonly isNew: boolean } | { readonly conflicts: Conflicts } {
  const conflicts: Record<string, { stored: unknown; given: unknown }> = {};
  let isNew = false;

  function join(name: string, stored: string | null, told: string | undefined): string | null {
    if (told === undefined || told === stored) return stored;
    if (stored !== null) conflicts[name] = { stored, given: told };
    isNew = true;
    return told;
  }

  function joinMetadata(stored: string | null, told: Readonly<Record<string, unknown>> | undefined): string | null {
    if (told === undefined) return stored;
    const text = JSON.stringify(told);
    if (text === stored) return stored;
    isNew ||= stored === null;
    const joined = new Map(Object.entries(stored === null ? {} : (JSON.parse(stored) as Record<string, unknown>)));
    // As they would be read back: -0, for one, is not what it was.
    for (const [key, value] of Object.entries(JSON.parse(text) as Record<string, unknown>)) {
      if (!joined.has(key)) {
        joined.set(key, value);
        isNew = true;
      } else if (!isDeepStrictEqual(joined.get(key), value)) conflicts[`metadata.${key}`] = { stored: joined.get(key), given: value };
    }
    return JSON.stringify(Object.fromEntries(joined));
  }

  function joinTime(stored: number | null, told: number | undefined): number | null {
    if (told === undefined || (stored !== null && stored <= told)) return stored;
    isNew = true;
    return told;
  }

  const facts: Facts = {
    serviceId: join("id", row.service_id, given.id),
    reference: join("reference", row.reference, given.reference),
    conversationId: join("conversationId", row.conversation_id, given.conversationId),
    metadata: joinMetadata(row.metadata, given.metadata),
    sentAt: joinTime(row.told_sent_at, given.sentAt),
  };
  return Object.keys(conflicts).length > 0 ? { conflicts } : { facts, isNew };
}

/** `index`: the place in a list of registrations of the one that conflicts. */
export function conflictError(conflicts: Conflicts, index?: number): RelayError {
  const each = Object.entries(conflicts).map(([name, { stored, given }]) => `${name} (${shown(stored)}, not ${shown(given)})`);
  const where = index === undefined ? "" : `; it is number ${index + 1} of the list, of which nothing was registered`;
  const details = index === undefined ? conflicts : { ...conflicts, index };
  return new RelayError("conflict", `this wamid is registered with another ${each.join(" and another ")}${where}`, details);
}

/** Metadata can be large; `details` has it whole. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length <= 100 ? text : `${text.slice(0, 99)}…`;
}
