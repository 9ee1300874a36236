import type { ReplayCount, ReplayDone, ReplayQuery } from "../control/replay.ts";
import { type Envelope, parseEnvelope } from "../model/envelope.ts";
import { RelayError } from "../model/errors.ts";
import { type FieldPaths, subjectOf } from "../model/event.ts";
import type { QuarantinedEvent, ReleasedEvent, ReplayCursor, Store } from "../store/port.ts";
import type { AcceptOutcome } from "../store/rules.ts";
import { cursorText, parseCursor } from "./replaying.ts";

export interface ReleasingParts {
  readonly store: Pick<Store, "findQuarantined" | "quarantined">;
  readonly now: () => number;
  /** Fields of the sources that take events, by their names in the settings in force. */
  readonly fieldsOf: (source: string) => { readonly account: string; readonly fields: FieldPaths } | null;
  /** Accepts the event as one that came in; null: its body is in quarantine no more. */
  readonly release: (event: ReleasedEvent) => Promise<AcceptOutcome | null>;
  readonly stopping: () => boolean;
}

type Read = { readonly ok: true; readonly envelope: Envelope } | { readonly ok: false; readonly error: string };

/** Bodies read at once: each may be as large as `server.bodyLimit`. */
const stepRows = 16;
/** One call ends after this and says where to go on. */
const longestMs = 5_000;
/** Reasons told apart in a count; they come from the relay, and few differ. */
const mostReasons = 20;

/** Releases quarantined bodies that are valid envelopes by the relay and the settings of today. */
export function createReleasing({ store, now, fieldsOf, release, stopping }: ReleasingParts) {
  function read({ source, account, body }: QuarantinedEvent): Read & { readonly fields?: FieldPaths } {
    const known = fieldsOf(source);
    if (known === null) return { ok: false, error: `no source "${source}" in the settings takes events` };
    if (known.account !== account) return { ok: false, error: `the source "${source}" has another account now` };
    return { ...parseEnvelope(body), fields: known.fields };
  }

  async function* walk({ event, ...filter }: ReplayQuery, from: ReplayCursor) {
    if (event !== undefined) {
      const one = await store.quarantined(event);
      if (one === null) throw new RelayError("not_found", `no event ${event} in quarantine`);
      yield { found: [one], cursor: null };
      return;
    }
    let cursor: ReplayCursor | null = from;
    while (cursor !== null && !stopping()) {
      const step: Awaited<ReturnType<typeof store.findQuarantined>> = await store.findQuarantined(filter, cursor, stepRows);
      yield step;
      cursor = step.cursor;
    }
  }

  return {
    async count(query: ReplayQuery): Promise<ReplayCount> {
      refuseOthers(query);
      const reasons = new Map<string, number>();
      let matching = 0;
      for await (const { found } of walk(query, { since: now(), event: 0, route: 0 })) {
        for (const one of found) {
          const envelope = read(one);
          if (envelope.ok) matching += 1;
          else {
            const reason = reasons.has(envelope.error) || reasons.size < mostReasons ? envelope.error : "other reasons";
            reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
          }
        }
      }
      return { matching, routes: [], notSent: [], invalid: [...reasons].map(([reason, events]) => ({ reason, events })) };
    },
    /** In the order in which they were received. Those that are still no envelope stay as they are. */
    async replay(query: ReplayQuery, from: string | null, limit: number): Promise<ReplayDone> {
      refuseOthers(query);
      const startedAt = performance.now();
      const done = { replayed: 0, duplicates: 0, invalid: 0 };
      let place = from === null ? { since: now(), event: 0, route: 0 } : parseCursor(from);
      for await (const { found, cursor } of walk(query, place)) {
        for (const one of found) {
          if (done.replayed + done.duplicates >= limit || performance.now() - startedAt > longestMs || stopping()) {
            return { ...done, next: cursorText(place) };
          }
          const result = read(one);
          if (!result.ok) done.invalid += 1;
          else {
            const outcome = await release(eventOf(one, result.envelope, result.fields, now()));
            if (outcome?.result === "accepted") done.replayed += 1;
            else if (outcome !== null) done.duplicates += 1;
          }
          place = { since: place.since, event: one.seq, route: one.receivedAt };
        }
        if (cursor === null) return { ...done, next: null };
        place = cursor;
      }
      return { ...done, next: cursorText(place) };
    },
  };
}

/** `receivedAt` is now: it is accepted after all that came before, and its secret proved nothing a second time. */
function eventOf(
  { seq, account, source, origin, headers, body }: QuarantinedEvent,
  envelope: Envelope,
  fields: FieldPaths | undefined,
  at: number,
): ReleasedEvent {
  const subject = fields === undefined ? ({ type: "none" } as const) : subjectOf(envelope, fields, body);
  return { account, source, origin, receivedAt: at, body, headers, secret: null, envelope, subject, releaseOf: seq };
}

/** A quarantined body has no routes, and nothing is known of what is in it. */
function refuseOthers({ route, errorCode }: ReplayQuery): void {
  if (route === undefined && errorCode === undefined) return;
  const path = route === undefined ? "errorCode" : "route";
  const message = "does not apply to quarantined events";
  throw new RelayError("bad_request", `${path}: ${message}`, [{ path, message }]);
}
