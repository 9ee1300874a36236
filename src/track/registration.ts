import { isDeepStrictEqual } from "node:util";
import { RelayError } from "../model/errors.ts";
import { metadataFault } from "../model/tracking.ts";

export interface MessageRegistration {
  readonly account: string;
  readonly wamid: string;
  readonly id?: string | undefined;
  readonly reference?: string | undefined;
  readonly conversationId?: string | undefined;
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** Unix ms. */
  readonly sentAt?: number | undefined;
}

/** Null: not given. */
export interface MessageFacts {
  readonly id: string | null;
  readonly reference: string | null;
  readonly conversationId: string | null;
  /** A JSON object. */
  readonly metadata: string | null;
  readonly sentAt: number | null;
}

/** By name: `id`, `reference`, `conversationId`, `metadata.<key>`. */
export type Conflicts = Readonly<
  Record<string, { readonly stored: unknown; readonly given: unknown }>
>;

export interface KnownMessage {
  readonly facts: MessageFacts;
  readonly registeredAt: number | null;
}

/** `facts` null: unchanged. A conflict stores nothing. */
export type Registration =
  | { readonly result: "created"; readonly facts: MessageFacts }
  | { readonly result: "known"; readonly facts: MessageFacts | null }
  | { readonly result: "conflict"; readonly conflicts: Conflicts };

const noFacts: MessageFacts = {
  id: null,
  reference: null,
  conversationId: null,
  metadata: null,
  sentAt: null,
};

export function registerMessage(
  known: KnownMessage | null,
  given: MessageRegistration,
): Registration {
  const joined = joinFacts(known?.facts ?? noFacts, given);
  if ("conflicts" in joined) return { result: "conflict", conflicts: joined.conflicts };
  if (known === null || known.registeredAt === null)
    return { result: "created", facts: joined.facts };
  return { result: "known", facts: joined.isNew ? joined.facts : null };
}

/** Metadata is merged key by key. Clocks differ, so of several send times the earliest counts. */
export function joinFacts(
  known: MessageFacts,
  given: MessageRegistration,
): { readonly facts: MessageFacts; readonly isNew: boolean } | { readonly conflicts: Conflicts } {
  const conflicts: Record<string, { stored: unknown; given: unknown }> = {};
  let isNew = false;

  function join(name: string, stored: string | null, given: string | undefined): string | null {
    if (given === undefined || given === stored) return stored;
    if (stored !== null) conflicts[name] = { stored, given };
    isNew = true;
    return given;
  }

  function joinMetadata(
    stored: string | null,
    given: Readonly<Record<string, unknown>> | undefined,
  ): string | null {
    if (given === undefined) return stored;
    const text = JSON.stringify(given);
    if (text === stored) return stored;
    if (stored === null) {
      isNew = true;
      return text;
    }
    const before = JSON.parse(stored) as Record<string, unknown>;
    const joined = new Map(Object.entries(before));
    // Compares the values as they would be read back: JSON changes -0, for example.
    for (const [key, value] of Object.entries(JSON.parse(text) as Record<string, unknown>)) {
      if (!joined.has(key)) {
        joined.set(key, value);
        isNew = true;
      } else if (!isDeepStrictEqual(joined.get(key), value))
        conflicts[`metadata.${key}`] = { stored: joined.get(key), given: value };
    }
    const whole = Object.fromEntries(joined);
    // Each registration is within the limits, but their sum may not be.
    const fault = metadataFault(whole);
    if (fault !== null)
      conflicts["metadata"] = {
        stored: `${Object.keys(before).length} keys`,
        given: `more: together it ${fault}`,
      };
    return JSON.stringify(whole);
  }

  function joinTime(stored: number | null, given: number | undefined): number | null {
    if (given === undefined || (stored !== null && stored <= given)) return stored;
    isNew = true;
    return given;
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

/** `index`: of the registration in a list. */
export function conflictError(conflicts: Conflicts, index?: number): RelayError {
  // Metadata may name people, and can be large: `details` has it in full.
  const each = Object.entries(conflicts).map(([name, { stored, given }]) =>
    name.startsWith("metadata")
      ? name
      : `${name} (${JSON.stringify(stored)}, not ${JSON.stringify(given)})`,
  );
  const where =
    index === undefined
      ? ""
      : `; it is number ${index + 1} of the list, of which nothing was registered`;
  const details = index === undefined ? conflicts : { ...conflicts, index };
  return new RelayError(
    "conflict",
    `this wamid is registered with another ${each.join(" and another ")}${where}`,
    details,
  );
}
