import type { ReplayCountView, ReplayStep } from "../model/answers/actions.ts";
import { RelayError } from "../model/errors.ts";
import type { FieldPaths } from "../model/event.ts";
import {
  accountOf,
  type FormatName,
  noAccountText,
  readStoredItems,
} from "../model/formats/formats.ts";
import { countIn } from "../model/maps.ts";
import type { ReplayQuery } from "../model/queries.ts";
import type { Store } from "../store/create-store.ts";
import type {
  AcceptOutcome,
  QuarantinedEvent,
  ReleasedEvent,
  ReplayCursor,
} from "../store/port.ts";
import { cursorText, longestMs, parseCursor, start, walk } from "./steps.ts";

export interface ReleasingParts {
  readonly store: Pick<Store, "findQuarantined" | "quarantined">;
  readonly now: () => number;
  readonly sourceOf: (source: string) => ReadableSource | null;
  /** Accepts the event like a received one; null: its body is no longer in quarantine. */
  readonly release: (event: ReleasedEvent) => Promise<AcceptOutcome | null>;
  readonly stopping: () => boolean;
}

interface ReadableSource {
  readonly account: string;
  readonly format: FormatName;
  readonly accounts: Readonly<Record<string, string>>;
  readonly fields: FieldPaths;
}

/** Bodies read at once: each may be as large as `server.bodyLimit`. */
const stepBodies = 16;
const mostReasons = 20;

type ReadBody =
  | { readonly ok: true; readonly event: ReleasedEvent }
  | { readonly ok: false; readonly error: string };

/** Releases quarantined bodies that are valid envelopes for this relay and the current settings. */
export function createReleasing({ store, now, sourceOf, release, stopping }: ReleasingParts) {
  function read(one: QuarantinedEvent): ReadBody {
    const { source, account, body, receivedAt, request = null, place = null } = one;
    const known = sourceOf(source);
    if (known === null)
      return { ok: false, error: `no source "${source}" in the settings takes events` };
    const format = one.format ?? (known.format === "standard" ? null : known.format);
    const [item, ...others] = readStoredItems(
      { format, source, body, request, place, receivedAt },
      known.fields,
    );
    if (item === undefined || others.length > 0)
      return { ok: false, error: "the body has several events" };
    const { content, numbers } = item;
    if (!content.ok) return content;
    const isNumbered = format !== null;
    if (!isNumbered && known.account !== account)
      return { ok: false, error: `the source "${source}" has another account now` };
    const of = isNumbered ? accountOf(known, numbers) : account;
    if (of === null) return { ok: false, error: noAccountText(numbers) };
    const { seq, disposition: _, ...received } = one;
    const { envelope, subject } = content;
    // As of now, after all earlier events. The secret is not counted as used again.
    const event = {
      ...received,
      account: of,
      receivedAt: now(),
      secret: null,
      envelope,
      subject,
      releaseOf: seq,
    };
    return { ok: true, event: format === null ? event : { ...event, format } };
  }

  async function* bodies({ event, disposition, ...filter }: ReplayQuery, from: ReplayCursor) {
    const kept = disposition === "unassigned" ? disposition : "quarantined";
    if (event !== undefined) {
      const one = await store.quarantined(event);
      const isVisible =
        one !== null && (filter.accounts === undefined || filter.accounts.includes(one.account));
      if (!isVisible) throw new RelayError("not_found", `no event ${event} in quarantine`);
      yield { found: [one], cursor: null };
      return;
    }
    yield* walk(
      from,
      (cursor) => store.findQuarantined({ ...filter, disposition: kept }, cursor, stepBodies),
      stopping,
    );
  }

  return {
    async count(query: ReplayQuery): Promise<ReplayCountView> {
      const reasons = new Map<string, number>();
      let matching = 0;
      for await (const { found } of bodies(query, start(now()))) {
        for (const one of found) {
          const result = read(one);
          if (result.ok) matching += 1;
          else
            countIn(
              reasons,
              reasons.has(result.error) || reasons.size < mostReasons
                ? result.error
                : "other reasons",
            );
        }
      }
      return {
        matching,
        routes: [],
        notSent: [],
        invalid: [...reasons].map(([reason, events]) => ({ reason, events })),
      };
    },
    /** In the order received. Bodies that are still invalid stay in quarantine. */
    async replay(query: ReplayQuery, from: string | null, limit: number): Promise<ReplayStep> {
      const startedAt = performance.now();
      const done = { replayed: 0, duplicates: 0, invalid: 0 };
      let place = from === null ? start(now()) : parseCursor(from);
      for await (const { found, cursor } of bodies(query, place)) {
        for (const one of found) {
          if (
            done.replayed + done.duplicates >= limit ||
            performance.now() - startedAt > longestMs ||
            stopping()
          ) {
            return { ...done, next: cursorText(place) };
          }
          const result = read(one);
          if (!result.ok) done.invalid += 1;
          else {
            const outcome = await release(result.event);
            if (outcome?.result === "accepted") done.replayed += 1;
            else if (outcome !== null) done.duplicates += 1;
          }
          place = { since: place.since, event: one.seq, lane: one.receivedAt, route: "" };
        }
        if (cursor === null) return { ...done, next: null };
        place = cursor;
      }
      return { ...done, next: cursorText(place) };
    },
  };
}
