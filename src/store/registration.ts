import { isDeepStrictEqual } from "node:util";
import { RelayError } from "../model/errors.ts";
import { metadataFault } from "../model/message.ts";
import type { DueDelivery } from "./rules.ts";

/** Registers a message as the user's. */
export interface MessageRegistration {
  readonly account: string;
  readonly wamid: string;
  /** The service's. */
  readonly id?: string | undefined;
  readonly reference?: string | undefined;
  readonly conversationId?: string | undefined;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** When it was sent, in unix ms. */
  readonly sentAt?: number | undefined;
}

/** The stored facts of a registration. Null: not given. */
export interface MessageFacts {
  /** The service's. */
  readonly id: string | null;
  readonly reference: string | null;
  readonly conversationId: string | null;
  /** A JSON object. */
  readonly metadata: string | null;
  /** Unix ms. */
  readonly sentAt: number | null;
}

export type Registered =
  | { readonly result: "created" | "known"; readonly due: readonly DueDelivery[] }
  | { readonly result: "conflict"; readonly conflicts: Conflicts };

/** Facts that differ from the stored ones, by name: `id`, `reference`, `conversationId`, `metadata.<key>`. */
export type Conflicts = Readonly<Record<string, { readonly stored: unknown; readonly given: unknown }>>;

export function factsTold({ id, reference, conversationId, metadata, sentAt }: MessageRegistration): MessageFacts {
  return {
    id: id ?? null,
    reference: reference ?? null,
    conversationId: conversationId ?? null,
    metadata: metadata === undefined ? null : JSON.stringify(metadata),
    sentAt: sentAt ?? null,
  };
}

/**
 * Merges a registration into the stored facts of a message. A new fact is added, an equal one changes nothing, a different
 * one is a conflict. Metadata is merged key by key. Clocks differ, so of several send times the earliest counts.
 */
export function joinFacts(
  known: MessageFacts,
  given: MessageRegistration,
): { readonly facts: MessageFacts; readonly isNew: boolean } | { readonly conflicts: Conflicts } {
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
    const before = stored === null ? {} : (JSON.parse(stored) as Record<string, unknown>);
    const joined = new Map(Object.entries(before));
    // Compares the values as they would be read back: JSON changes -0, for example.
    for (const [key, value] of Object.entries(JSON.parse(text) as Record<string, unknown>)) {
      if (!joined.has(key)) {
        joined.set(key, value);
        isNew = true;
      } else if (!isDeepStrictEqual(joined.get(key), value)) conflicts[`metadata.${key}`] = { stored: joined.get(key), given: value };
    }
    const whole = Object.fromEntries(joined);
    // Each registration is within the limits, but their sum may not be.
    const fault = metadataFault(whole);
    if (fault !== null) conflicts["metadata"] = { stored: `${Object.keys(before).length} keys`, given: `more: together it ${fault}` };
    return JSON.stringify(whole);
  }

  function joinTime(stored: number | null, told: number | undefined): number | null {
    if (told === undefined || (stored !== null && stored <= told)) return stored;
    isNew = true;
    return told;
  }

  const facts: MessageFacts = {
    id: join("id", known.id, given.id),
    reference: join("reference", known.reference, given.reference),
    conversationId: join("conversationId", known.conversationId, given.conversationId),
    metadata: joinMetadata(known.metadata, given.metadata),
    sentAt: joinTime(known.sentAt, given.sentAt),
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

/** Metadata can be large. `details` has it in full. */
function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? "nothing";
  return text.length <= 100 ? text : `${text.slice(0, 99)}…`;
}
