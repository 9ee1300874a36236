import { createdAtOf, isTruncated } from "../../model/envelope.ts";
import type { ReceivedEvent, TrackedSubject } from "../../model/event.ts";
import { countsOfTracking, minuteMs } from "../../model/history.ts";
import { hiddenNumber } from "../../model/mask.ts";
import type { DeliveryPlan } from "../../model/states.ts";
import type { MessageState, RunState, Step, TrackedState, Tracking } from "../../model/tracking.ts";
import { type Facts, nothingTracked, parking, planArrival } from "../../track/planning.ts";
import type { AcceptOutcome, Rules } from "../port.ts";
import { codeOf, packEventId, packHeaders } from "../schema/codes.ts";
import {
  events,
  plans,
  queue,
  type RowOf,
  subjects,
  whereDerived,
  whereGiven,
} from "../schema/tables.ts";
import {
  ask,
  change,
  find,
  findOrNumber,
  insert,
  insertMissing,
  look,
  numbers,
  set,
  together,
  update,
  type Work,
} from "../sql/ops.ts";
import { type Counts, countSecret } from "./counts.ts";
import { type Beginning, beginHydrations } from "./hydrations.ts";
import {
  lookAround,
  type NumberedPlan,
  type PlanNumbers,
  type PlannedBatch,
  type PlannedEvent,
  type Queued,
  queueRows,
} from "./plans.ts";
import { pollAgain } from "./polls.ts";
import { knownId } from "./quarantine.ts";
import {
  byKey,
  factsOfRow,
  keyOf,
  keyOfRun,
  movedColumns,
  moveTo,
  newSubject,
  type SubjectRow,
  stateOfRow,
} from "./subject-rows.ts";

export interface Arriving {
  readonly event: ReceivedEvent;
  readonly proxyRoute: string | null;
}

export interface AcceptParts {
  readonly rules: Rules;
  readonly plans: Pick<PlanNumbers, "numberOf" | "isStored">;
}

/** Only these: each value that is read costs about 80 ns, and a buffer six times as much. */
const trackedColumns = [
  ...([
    "seq",
    "type",
    "service_id",
    "reference",
    "metadata",
    "registered_at",
    "registered_sent_at",
  ] as const),
  ...movedColumns,
  "missing",
] as const;
const trackedSubject = look(subjects, ["key", "account"], trackedColumns, { lock: "update" });
const givenEvent = look(events, ["id", "account"], ["seq", "body"], { where: whereGiven });
const derivedEvent = look(events, ["id"], ["seq"], { where: whereDerived });
const moved = change(subjects, movedColumns, { isLocked: true });
const repeated = change(events, [], { add: ["duplicates", "conflicts"] });

/**
 * Dedupes, stores, tracks and plans events in one step. A known id only raises its counts, so a
 * redelivery can neither change a status nor be planned again. The caller writes the counts, with
 * its own.
 */
export function* accept(
  arriving: readonly Arriving[],
  parts: AcceptParts,
  counts: Counts,
): Work<PlannedBatch<AcceptOutcome>> {
  const { ids, idOf, about, aboutOf } = nameAll(arriving);
  const stored = yield* lookUp(about, ids, releasedIds(arriving, idOf));
  const trackedOf = new Map(
    about.map((one, place) => [one, begin(one, stored[place] as (typeof stored)[number])]),
  );

  const planned: AcceptedEvent[] = [];
  for (const [place, one] of arriving.entries()) {
    const id = idOf[place] as Id;
    if (typeof id.known !== "number" || id.planned !== null) continue;
    const name = aboutOf[place] ?? null;
    id.planned = planEvent(
      one,
      place,
      id,
      name === null ? null : (trackedOf.get(name) ?? null),
      parts,
      counts,
    );
    planned.push(id.planned);
  }
  // A new message has nothing open.
  const { open, used, unstored } = yield* lookAround(
    parts.rules,
    planned.filter(({ isNewSubject }) => !isNewSubject),
    planned.flatMap(({ plan }) => (parts.plans.isStored(plan.id) ? [] : [plan])),
  );

  const outcomes: AcceptOutcome[] = new Array(arriving.length);
  const queued: Queued[] = [];
  for (const one of planned) {
    const { rows: own, due } = queueRows(parts.rules, one, open);
    queued.push(...own);
    outcomes[one.place] = { result: "accepted", seq: one.seq, disposition: one.disposition, due };
  }
  const changed = repeatCounts(arriving, idOf, outcomes, counts);
  const tracked = [...trackedOf.values()];
  yield* together([
    insertMissing(plans, unstored),
    insert(
      subjects,
      tracked.flatMap(({ added, isChanged }) => (added !== null && isChanged ? [added] : [])),
    ),
    set(
      moved,
      tracked.flatMap(({ row, added, isChanged }) => (added === null && isChanged ? [row] : [])),
    ),
    insert(events, planned, ({ row }) => row),
    update(repeated, changed),
    insert(queue, queued),
  ]);
  const hydrating = planned.flatMap(({ hydration }) => hydration ?? []);
  if (hydrating.length > 0) yield* beginHydrations(hydrating);
  const revived = tracked.filter(({ isRevived }) => isRevived);
  if (revived.length > 0) yield* pollAgain(revived.map(({ row }) => row));
  return { outcomes, plans: used };
}

type Known = { readonly seq: number; readonly body?: Buffer } | number;

/** An id of the batch, which several of its events may have. */
interface Id {
  readonly key: Buffer;
  readonly account: string;
  readonly isDerived: boolean;
  known: Known | null;
  planned: AcceptedEvent | null;
}

interface About {
  readonly key: Buffer;
  readonly account: string;
  readonly name: string;
  readonly type: 0 | 1;
}

/** Subjects are sorted, so that two receivers lock them in one order. */
function nameAll(arriving: readonly Arriving[]) {
  const byId = new Map<string, Id>();
  const bySubject = new Map<string, About>();
  const idOf = arriving.map(({ event: { account, envelope, format } }) => {
    const isDerived = format !== undefined;
    const name = isDerived ? envelope.id : `${account}\0${envelope.id}`;
    let id = byId.get(name);
    if (id === undefined) {
      id = { key: packEventId(envelope.id), account, isDerived, known: null, planned: null };
      byId.set(name, id);
    }
    return id;
  });
  const aboutOf = arriving.map(({ event: { account, subject } }) => {
    if (subject.type === "none") return null;
    const [type, name] =
      subject.type === "message" ? ([0, subject.wamid] as const) : ([1, subject.runId] as const);
    const full = `${type}${account}\0${name}`;
    let about = bySubject.get(full);
    if (about === undefined) {
      about = { key: type === 0 ? keyOf(name) : keyOfRun(name), account, name, type };
      bySubject.set(full, about);
    }
    return about;
  });
  const about = [...bySubject.values()].sort((a, b) =>
    byKey([a.key, a.account], [b.key, b.account]),
  );
  return { ids: [...byId.values()], idOf, about, aboutOf };
}

function releasedIds(arriving: readonly Arriving[], idOf: readonly Id[]): ReadonlyMap<Id, number> {
  return new Map(
    arriving.flatMap(({ event: { releaseOf } }, place) =>
      releaseOf === undefined ? [] : [[idOf[place] as Id, releaseOf]],
    ),
  );
}

/**
 * Ids are looked up after the locks of the subjects: another receiver may have stored the event
 * meanwhile. Deleted events come after those that are there, because retention moves a derived id
 * between them.
 */
function* lookUp(about: readonly About[], ids: readonly Id[], released: ReadonlyMap<Id, number>) {
  const names = ({ key, account }: About | Id) => [key, account];
  const derived = ids.filter(({ isDerived }) => isDerived);
  if (derived.length === 0) {
    const [stored, found] = yield* together([
      findOrNumber(trackedSubject, about, names),
      findOrNumber(givenEvent, ids, names),
    ]);
    for (const [place, id] of ids.entries()) id.known = found[place] as Known;
    return stored;
  }
  const given = ids.filter(({ isDerived }) => !isDerived);
  const [stored, ofGiven, ofDerived, gone] = yield* together([
    findOrNumber(trackedSubject, about, names),
    find(givenEvent, given, names),
    find(derivedEvent, derived, ({ key }) => [key]),
    find(knownId, derived, ({ key }) => [key]),
  ]);
  for (const [place, id] of given.entries()) id.known = ofGiven[place] ?? null;
  for (const [place, id] of derived.entries()) {
    const kept = gone[place];
    id.known =
      ofDerived[place] ?? (kept === undefined || kept.seq === released.get(id) ? null : kept);
  }
  const fresh = ids.filter(({ known }) => known === null);
  const seqs = yield* ask(numbers(events, fresh.length));
  for (const [place, id] of fresh.entries()) id.known = seqs[place] as number;
  return stored;
}

interface Tracked {
  readonly row: Pick<SubjectRow, (typeof trackedColumns)[number]>;
  readonly added: SubjectRow | null;
  /** False for a new one that only a repeat is about: it is not stored. */
  isChanged: boolean;
  /** An event is about a message that the service did not know. */
  isRevived: boolean;
}

function begin(about: About, stored: Tracked["row"] | number): Tracked {
  const added = typeof stored === "number" ? newSubject({ ...about, seq: stored }) : null;
  return { row: added ?? (stored as Tracked["row"]), added, isChanged: false, isRevived: false };
}

interface AcceptedEvent extends PlannedEvent {
  readonly place: number;
  readonly id: Id;
  readonly row: RowOf<typeof events>;
  readonly plan: NumberedPlan;
  readonly disposition: string;
  readonly isNewSubject: boolean;
  readonly hydration: Beginning | null;
}

function planEvent(
  { event, proxyRoute }: Arriving,
  place: number,
  id: Id,
  about: Tracked | null,
  { rules, plans: numbersOf }: AcceptParts,
  counts: Counts,
): AcceptedEvent {
  const { account, source, envelope, receivedAt, subject: of } = event;
  const createdAt = createdAtOf(envelope, receivedAt);
  const minute = Math.floor(receivedAt / minuteMs);
  const seq = id.known as number;
  let tracking: Tracking = nothingTracked;
  let error: unknown;
  if (about !== null && of.type !== "none") {
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
      for (const [series, label] of countsOfTracking(
        tracking,
        step.state.times,
        row.registered_sent_at,
      ))
        counts.add(
          {
            at: minute,
            account,
            series,
            of: series === "transitions" || series === "skipped" ? source : "",
            label,
          },
          1,
        );
    } catch (failure) {
      error = failure;
    }
  }
  const truncated = isTruncated(envelope);
  const start = truncated
    ? rules.hydration({ event: envelope.event, account, hasSubject: about !== null })
    : null;
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
  const plan: DeliveryPlan = planArrival(rules, { event: routed, tracking, error, proxyRoute });
  const numbered = numbersOf.numberOf(plan);
  counts.add({ at: minute, account, series: "events", of: source, label: plan.disposition }, 1);
  countSecret(counts, event, "secret");
  return {
    place,
    id,
    seq,
    account,
    subject: about?.row.seq ?? null,
    isNewSubject: about !== null && about.added !== null,
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
      id: id.key,
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

/** `at`: the event's own time. Returns the same `state` object when nothing changed. */
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
  return {
    state,
    tracking: {
      ...facts,
      previousStatus: before.status,
      status: state.status,
      errorCode,
      transition,
    },
  };
}

function repeatCounts(
  arriving: readonly Arriving[],
  idOf: readonly Id[],
  outcomes: AcceptOutcome[],
  counts: Counts,
) {
  const changed = new Map<number, { seq: number; duplicates: number; conflicts: number }>();
  for (const [place, { event }] of arriving.entries()) {
    if (outcomes[place] !== undefined) continue;
    countSecret(counts, event, "secretRepeats");
    const { known, planned } = idOf[place] as Id;
    const { seq, body } = planned?.row ?? (known as Exclude<Known, number>);
    const row = planned?.row ?? changed.get(seq) ?? { seq, duplicates: 0, conflicts: 0 };
    if (planned === null) changed.set(seq, row);
    // Its id says that it is the same, whatever the request around it had.
    const conflict = event.format === undefined && body?.equals(event.body) !== true;
    row.duplicates += 1;
    if (conflict) row.conflicts += 1;
    outcomes[place] = { result: "duplicate", seq, conflict };
  }
  return [...changed.values()].sort((a, b) => a.seq - b.seq);
}
