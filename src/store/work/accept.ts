import { createdAtOf, isTruncated } from "../../model/envelope.ts";
import { type ReceivedEvent, type TrackedSubject, unstorable } from "../../model/event.ts";
import { countsOfTracking, minuteMs } from "../../model/history.ts";
import { hiddenNumber } from "../../model/mask.ts";
import type { DeliveryPlan } from "../../model/plan.ts";
import type { MessageState, RunState, Step, TrackedState, Tracking } from "../../model/tracking.ts";
import { type Facts, nothingTracked, parking, planArrival } from "../../track/planning.ts";
import type { AcceptOutcome, Rules } from "../port.ts";
import { codeOf, packEventId, packHeaders } from "../schema/codes.ts";
import { events, ids, plans, queue, type RowOf, subjects } from "../schema/tables.ts";
import { ask, change, find, findOrNumber, insert, insertMissing, look, set, together, update, type Work } from "../sql/ops.ts";
import { type Counts, countSecret } from "./counts.ts";
import { type Beginning, beginHydrations } from "./hydrations.ts";
import {
  distinctPlans,
  type Judged,
  knownPlan,
  laneKey,
  lanesToLookAt,
  type NumberedPlan,
  openInLane,
  type PlanNumbers,
  type Queued,
  queueRows,
  unstoredPlans,
} from "./plans.ts";
import { pollAgain } from "./polls.ts";
import { idRow, knownId, movedId, type Quarantined, storeQuarantined } from "./quarantine.ts";
import { byKey, factsOfRow, keyOf, keyOfRun, movedColumns, moveTo, newSubject, type SubjectRow, stateOfRow } from "./subject-rows.ts";

/** An event to accept. `proxyRoute`: the exchange that a `mode: proxy` source makes at once; null: none. */
export interface Arriving {
  readonly event: ReceivedEvent;
  readonly proxyRoute: string | null;
}

export interface AcceptParts {
  readonly rules: Rules;
  readonly plans: Pick<PlanNumbers, "numberOf" | "isStored">;
}

/** `plans`: those that are stored once the transaction is. */
export interface AcceptedBatch {
  readonly outcomes: readonly AcceptOutcome[];
  readonly plans: readonly NumberedPlan[];
}

type EventRow = RowOf<typeof events>;

/** Only these: each value that is read costs about 80 ns, and a buffer six times as much. */
const heardOf = [
  "seq",
  "type",
  "service_id",
  "reference",
  "metadata",
  "registered_at",
  "registered_sent_at",
  ...movedColumns,
  "missing",
] as const;
const heardSubject = look(subjects, ["key", "account"], heardOf, { lock: "update" });
const knownEvent = look(events, ["id", "account"], ["seq", "body"]);
const moved = change(subjects, movedColumns, { isLocked: true });
const repeated = change(events, [], { add: ["duplicates", "conflicts"] });

/**
 * Dedupes, stores, tracks and plans events in one step. A known id only raises its counts, so a redelivery can neither
 * change a status nor be planned again. The caller writes the counts, with its own.
 */
export function* accept(arriving: readonly Arriving[], parts: AcceptParts, counts: Counts): Work<AcceptedBatch> {
  const faults = arriving.map(({ event }) => unstorable(event));
  if (faults.every((fault) => fault === null)) return yield* acceptStorable(arriving, parts, counts);
  const { outcomes, plans } = yield* acceptStorable(
    arriving.filter((_, place) => faults[place] === null),
    parts,
    counts,
  );
  const bodies = arriving.flatMap(({ event }, place) => {
    const error = faults[place] ?? null;
    const id = event.format === undefined ? {} : { id: event.envelope.id };
    return error === null ? [] : [{ ...event, ...id, disposition: "quarantined" as const, error }];
  });
  const accepted = outcomes.values();
  const quarantined = (yield* storeQuarantined(bodies, counts)).values();
  return {
    outcomes: faults.map((fault) =>
      fault === null ? (accepted.next().value as AcceptOutcome) : outcomeOf(quarantined.next().value as Quarantined),
    ),
    plans,
  };
}

const outcomeOf = ({ result, seq }: Quarantined): AcceptOutcome =>
  result === "duplicate" ? { result: "duplicate", seq, conflict: false } : { result: "accepted", seq, disposition: "quarantined", due: [] };

function* acceptStorable(arriving: readonly Arriving[], parts: AcceptParts, counts: Counts): Work<AcceptedBatch> {
  const named = nameAll(arriving);
  const { about, keys } = named;
  // The ids come after the locks of the subjects: another receiver may have stored the event while this one waited for them.
  const { kept, released } = yield* keptIds(arriving, named);
  // Each that is not found takes a number.
  const unkept = kept.size === 0 ? named.ids : named.ids.filter((_, place) => !kept.has(place));
  const [heard, found] = yield* together([findOrNumber(heardSubject, keys), findOrNumber(knownEvent, unkept)]);
  const known = kept.size === 0 ? found : spread(found, named.ids.length, kept);
  const { fresh, repeats } = sortOut(named, known);

  const tracked: Tracked[] = about.map(([key, { account, name, type }], place) => {
    const row = heard[place] as (typeof heard)[number];
    if (typeof row !== "number") return { row, added: null, isChanged: false, isRevived: false };
    const added = newSubject({ seq: row, type, account, key, name });
    return { row: added, added, isChanged: false, isRevived: false };
  });
  const bySubject = new Map(
    about.map(([, { name, account, type }], place) => [subjectName(account, type, name), tracked[place] as Tracked]),
  );
  const judged = fresh.map(({ place, id, seq }) => judge(arriving[place] as Arriving, id, seq, bySubject, parts, counts));

  // A new message has nothing open.
  const lanes = lanesToLookAt(
    parts.rules,
    judged.filter(({ isNewSubject }) => !isNewSubject),
  );
  const newPlans = distinctPlans(judged.map(({ plan }) => plan)).filter(({ id }) => !parts.plans.isStored(id));
  const [inLanes, storedPlans] = yield* together([find(openInLane, lanes), find(knownPlan, newPlans, ({ id }) => [id])]);
  const unstored = unstoredPlans(newPlans, storedPlans);
  const open = new Set(lanes.flatMap(([lane, route], place) => (inLanes[place] === undefined ? [] : [laneKey(lane, route)])));

  const outcomes: AcceptOutcome[] = new Array(arriving.length);
  const queued: Queued[] = [];
  for (const [index, one] of judged.entries()) {
    const { rows: own, due } = queueRows(parts.rules, one, open);
    queued.push(...own);
    outcomes[(fresh[index] as Fresh).place] = { result: "accepted", seq: one.seq, disposition: one.disposition, due };
  }
  const changed = repeatCounts(arriving, repeats, judged, outcomes, counts);
  yield* together([
    insertMissing(plans, unstored),
    insert(
      subjects,
      tracked.flatMap(({ added, isChanged }) => (added !== null && isChanged ? [added] : [])),
    ),
    set(
      moved,
      tracked.filter(({ added, isChanged }) => added === null && isChanged),
      ({ row }) => row,
    ),
    insert(events, judged, ({ row }) => row),
    update(repeated, changed),
    insert(queue, queued),
    insert(
      ids,
      fresh.flatMap(({ place, id, seq }) => {
        const { event } = arriving[place] as Arriving;
        return event.format === undefined || released.has(place) ? [] : [idRow(id, seq, event.receivedAt)];
      }),
    ),
    update(
      movedId,
      fresh.flatMap(({ place, id, seq }) => (released.has(place) ? [{ id, seq }] : [])),
    ),
  ]);
  const hydrating = judged.flatMap(({ hydration }) => hydration ?? []);
  if (hydrating.length > 0) yield* beginHydrations(hydrating);
  const revived = tracked.filter(({ isRevived }) => isRevived);
  if (revived.length > 0) yield* pollAgain(revived.map(({ row }) => row));
  return { outcomes, plans: newPlans };
}

interface Tracked {
  readonly row: Pick<SubjectRow, (typeof heardOf)[number]>;
  /** The same with all columns, when it is not stored yet. */
  readonly added: SubjectRow | null;
  /** False for a new one that only a repeat is about: it is not stored. */
  isChanged: boolean;
  /** An event is about a message that the service did not know. */
  isRevived: boolean;
}

interface Named {
  /** The stored ids, each once, and which one an event has. */
  readonly ids: readonly (readonly [id: Buffer, account: string])[];
  readonly idOf: readonly number[];
  /** Places of the ids that a format derived. */
  readonly derived: readonly number[];
  /** The subjects, sorted by key, so that two receivers lock them in one order. */
  readonly about: readonly (readonly [key: Buffer, { readonly account: string; readonly name: string; readonly type: 0 | 1 }])[];
  readonly keys: readonly (readonly [Buffer, string])[];
}

const subjectName = (account: string, type: 0 | 1, name: string): string => `${type}${account}\0${name}`;

function nameAll(arriving: readonly Arriving[]): Named {
  const byId = new Map<string, number>();
  const ids: (readonly [Buffer, string])[] = [];
  const derived: number[] = [];
  const idOf = arriving.map(({ event: { account, envelope, format } }) => {
    const name = `${account}\0${envelope.id}`;
    let place = byId.get(name);
    if (place === undefined) {
      place = ids.push([packEventId(envelope.id), account]) - 1;
      byId.set(name, place);
      if (format !== undefined) derived.push(place);
    }
    return place;
  });
  const bySubject = new Map<string, readonly [Buffer, { account: string; name: string; type: 0 | 1 }]>();
  for (const { event } of arriving) {
    if (event.subject.type === "none") continue;
    const name = event.subject.type === "message" ? event.subject.wamid : event.subject.runId;
    const type = event.subject.type === "message" ? 0 : 1;
    const full = subjectName(event.account, type, name);
    if (!bySubject.has(full)) bySubject.set(full, [type === 0 ? keyOf(name) : keyOfRun(name), { account: event.account, name, type }]);
  }
  const about = [...bySubject.values()].sort(([a, { account: one }], [b, { account: other }]) => byKey([a, one], [b, other]));
  return {
    ids,
    idOf,
    derived,
    about,
    keys: about.map(([key, { account }]) => [key, account]),
  };
}

interface Fresh {
  readonly place: number;
  readonly id: Buffer;
  readonly seq: number;
}

interface Repeat {
  /** The places of the repeat, and of the event of this batch that it repeats; null: it repeats a stored one. */
  readonly place: number;
  readonly first: number | null;
  readonly stored: { readonly seq: number; readonly body?: Buffer } | null;
}

/**
 * The derived ids of the batch that have an event already, by their place in `ids`. `released`: places of events that were
 * kept as unassigned under their own id until now.
 */
function* keptIds(arriving: readonly Arriving[], { ids, idOf, derived }: Named) {
  const kept = new Map<number, { readonly seq: number }>();
  const released = new Set<number>();
  if (derived.length === 0) return { kept, released };
  const rows = yield* ask(find(knownId, derived, (place) => [(ids[place] as (typeof ids)[number])[0]]));
  for (const [index, row] of rows.entries()) if (row !== undefined) kept.set(derived[index] as number, row);
  for (const [place, id] of idOf.entries()) {
    const { releaseOf } = (arriving[place] as Arriving).event;
    if (releaseOf === undefined || kept.get(id)?.seq !== releaseOf) continue;
    kept.delete(id);
    released.add(place);
  }
  return { kept, released };
}

type Known = { readonly seq: number; readonly body?: Buffer } | number;

/** All ids in their order again: those found, and those kept. */
function spread(found: readonly Known[], length: number, kept: ReadonlyMap<number, Known>): readonly Known[] {
  const next = found.values();
  return Array.from({ length }, (_, place) => kept.get(place) ?? (next.next().value as Known));
}

/** Which events are new, and which repeat a stored one or an earlier one of the batch. */
function sortOut({ ids, idOf }: Named, known: readonly Known[]) {
  const fresh: Fresh[] = [];
  const repeats: Repeat[] = [];
  const firsts = new Map<number, number>();
  for (const [place, id] of idOf.entries()) {
    const stored = known[id] as Known;
    const first = firsts.get(id);
    if (typeof stored !== "number") repeats.push({ place, first: null, stored });
    else if (first !== undefined) repeats.push({ place, first, stored: null });
    else {
      firsts.set(id, place);
      fresh.push({ place, id: (ids[id] as (typeof ids)[number])[0], seq: stored });
    }
  }
  return { fresh, repeats };
}

interface JudgedEvent extends Judged {
  readonly row: EventRow;
  readonly plan: NumberedPlan;
  readonly disposition: string;
  readonly isNewSubject: boolean;
  readonly hydration: Beginning | null;
}

/** Tracks and plans one event. Changes the row of its subject. */
function judge(
  { event, proxyRoute }: Arriving,
  id: Buffer,
  seq: number,
  bySubject: ReadonlyMap<string, Tracked>,
  { rules, plans: numbersOf }: AcceptParts,
  counts: Counts,
): JudgedEvent {
  const { account, source, envelope, receivedAt, subject: of } = event;
  const createdAt = createdAtOf(envelope, receivedAt);
  const minute = Math.floor(receivedAt / minuteMs);
  const name = of.type === "message" ? of.wamid : of.type === "run" ? of.runId : null;
  const about = name === null ? undefined : bySubject.get(subjectName(account, of.type === "message" ? 0 : 1, name));
  let tracking: Tracking = nothingTracked;
  let error: unknown;
  if (about !== undefined && of.type !== "none") {
    const { row } = about;
    if (row.missing !== null) about.isRevived = true;
    if (about.added !== null && !about.isChanged) {
      row.updated_at = receivedAt;
      about.isChanged = true;
    }
    try {
      const before = stateOfRow(row);
      const step = stepSubject(rules, of, before, factsOfRow(row), createdAt);
      tracking = step.tracking;
      if (step.state !== before) {
        moveTo(row, step.state, receivedAt);
        about.isChanged = true;
      }
      for (const [series, label] of countsOfTracking(tracking, step.state.times, row.registered_sent_at))
        counts.add({ at: minute, account, series, of: series === "transitions" || series === "skipped" ? source : "", label }, 1);
    } catch (failure) {
      error = failure;
    }
  }
  const truncated = isTruncated(envelope);
  const start = truncated ? rules.hydration({ event: envelope.event, account, hasSubject: about !== undefined }) : null;
  const isHydrating = start?.state === "waiting";
  const status = of.type === "none" ? null : of.status;
  const errorCode = of.type === "message" ? of.errorCode : null;
  const routed = {
    event: envelope.event,
    account,
    source,
    status,
    errorCode,
    data: envelope.data,
    truncated,
    hydrating: isHydrating,
    ...parking(event.format ?? null, envelope.event),
  };
  const plan: DeliveryPlan = planArrival(rules, { event: routed, tracking, error, isBehind: false, proxyRoute });
  const numbered = numbersOf.numberOf(plan);
  counts.add({ at: minute, account, series: "events", of: source, label: plan.disposition }, 1);
  countSecret(counts, event, "secret");
  return {
    seq,
    account,
    subject: about?.row.seq ?? null,
    isNewSubject: about !== undefined && about.added !== null,
    receivedAt,
    verdicts: plan.verdicts,
    disposition: plan.disposition,
    isHydrating,
    proxyRoute,
    plan: numbered,
    hydration: start === null ? null : { seq, event, start },
    row: {
      seq,
      account,
      id,
      kind: envelope.event,
      format: event.format ?? null,
      request: event.place === undefined ? null : (event.request ?? null),
      place: event.place ?? null,
      source,
      origin: codeOf.origin[event.origin],
      received_at: receivedAt,
      created_at: createdAt,
      secret: event.secret,
      subject: about?.row.seq ?? null,
      status,
      previous_status: tracking.previousStatus,
      moved: tracking.transition === null ? 0 : 1,
      error_code: errorCode,
      disposition: codeOf.disposition[plan.disposition],
      plan: numbered.id,
      duplicates: 0,
      conflicts: 0,
      fault: plan.fault?.replaceAll("\0", "\ufffd") ?? null,
      release: event.releaseOf ?? null,
      mask: hiddenNumber(envelope.id),
      headers: packHeaders(event.headers),
      body: event.body,
    },
  };
}

/**
 * Applies an event to the state of its message or run, whose registered facts are `facts`. `at` is the event's own time in
 * unix ms. Returns the same `state` object when nothing changed.
 */
function stepSubject(
  rules: Pick<Rules, "stepMessage" | "stepRun">,
  subject: TrackedSubject,
  before: TrackedState<string>,
  facts: Facts,
  at: number,
): { readonly state: TrackedState<string>; readonly tracking: Tracking } {
  const { status } = subject;
  const isMessage = subject.type === "message";
  const { state, transition }: Step<TrackedState<string>> = isMessage
    ? rules.stepMessage(before as MessageState, { status, error: subject.errorCode, at })
    : rules.stepRun(before as RunState, { status, error: subject.error, at });
  const errorCode = isMessage ? state.error : null;
  return { state, tracking: { ...facts, previousStatus: before.status, status: state.status, errorCode, transition } };
}

/** Counts repeats and conflicts on the stored rows that they repeat. Those of this batch are not stored yet. */
function repeatCounts(
  arriving: readonly Arriving[],
  repeats: readonly Repeat[],
  judged: readonly JudgedEvent[],
  outcomes: AcceptOutcome[],
  counts: Counts,
) {
  const bySeq = new Map(judged.map(({ seq, row }) => [seq, row]));
  const changed = new Map<number, { seq: number; duplicates: number; conflicts: number }>();
  for (const { place, first, stored } of repeats) {
    const { event } = arriving[place] as Arriving;
    countSecret(counts, event, "secretRepeats");
    const seq = stored?.seq ?? (outcomes[first as number] as AcceptOutcome).seq;
    const row = bySeq.get(seq) ?? changed.get(seq) ?? { seq, duplicates: 0, conflicts: 0 };
    if (stored !== null) changed.set(seq, row);
    // Its id says that it is the same, whatever the request around it had.
    const conflict = event.format === undefined && !(stored?.body ?? (bySeq.get(seq) as EventRow).body).equals(event.body);
    row.duplicates += 1;
    if (conflict) row.conflicts += 1;
    outcomes[place] = { result: "duplicate", seq, conflict };
  }
  return [...changed.values()].sort((a, b) => a.seq - b.seq);
}
