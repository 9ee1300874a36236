import { parseEnvelopeText } from "../../model/envelope.ts";
import type { Wamid } from "../../model/ids.ts";
import { planningFault } from "../../track/planning.ts";
import type { Planned, PlannedSome, Rules } from "../rules.ts";
import type { RedisLink } from "./client.ts";
import { type Commit, type StepResult, seqIn } from "./commit.ts";
import { type EventRow, planText, readEventRow, writeEventRow } from "./event-rows.ts";
import { countsOfEvent } from "./history.ts";
import { type Keys, readSubjectName } from "./keys.ts";
import { createTrackAndPlan, type EventToPlan, type PlannedEvent, subjectVersion } from "./plans.ts";
import { rowJson, rowVersion, unseenSubject, writeSubjectRow } from "./rows.ts";
import type { SubjectCache } from "./subjects.ts";

interface PlanningParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly commit: Commit;
  readonly rules: Rules;
  readonly cache: SubjectCache;
  readonly version: () => string;
}

/** Seqs read at once. Their rows are read in portions, the next one while this one is planned. */
const mostSeqs = 400;
const rowsAtOnce = 100;
/** Bytes of separate bodies per portion; two portions are in memory at once. */
const mostBytes = 4 * 1024 * 1024;

interface UnplannedEvent {
  readonly seq: string;
  readonly row: EventRow;
  /** Its body as text. */
  readonly body: string;
  /** Whether the body is in the row. */
  readonly isInline: boolean;
}

interface Portion {
  readonly events: readonly UnplannedEvent[];
  /** Seqs to remove from the list. */
  readonly lostSeqs: readonly string[];
  /** Index of the next seq to read. */
  readonly to: number;
}

interface Sent {
  readonly plannedEvent: PlannedEvent;
  readonly result: Promise<StepResult>;
}

const untouched = { isHydrating: false, operations: [], proxyRoute: null, separate: null };

/**
 * Tracks and plans accepted events (`unplanned`) in the order of acceptance. Any number of processes may do this: the first
 * step wins, and if a process dies, others plan the rest.
 */
export function createPlanning({ keys, link, commit, rules, cache, version }: PlanningParts) {
  const trackAndPlan = createTrackAndPlan(keys.base, rules, version);
  const list = `${keys.base}unplanned`;

  /** Reads the next events from index `from`. A deleted or damaged row must not block the others. */
  async function read(seqs: readonly string[], from: number): Promise<Portion> {
    const some = seqs.slice(from, from + rowsAtOnce);
    if (some.length === 0) return { events: [], lostSeqs: [], to: from };
    const rows = await link.run((redis) => redis.mget(some.map(keys.event)));
    const found: { readonly seq: string; readonly row: EventRow; readonly text: string }[] = [];
    const lostSeqs: string[] = [];
    const separate: string[] = [];
    let bytes = 0;
    for (const [index, seq] of some.entries()) {
      const text = rows[index] ?? null;
      const row = text === null ? null : readable(text);
      if (text === null || row === null) {
        lostSeqs.push(seq);
        continue;
      }
      if (!hasBody(text)) {
        bytes += row.size;
        if (bytes > mostBytes && separate.length > 0) break;
        separate.push(seq);
      }
      found.push({ seq, row, text });
    }
    const bodies = separate.length === 0 ? [] : await link.run((redis) => redis.mget(separate.map(keys.body)));
    const bodyOf = new Map(separate.map((seq, index) => [seq, bodies[index] ?? ""]));
    for (const seq of lostSeqs) await link.run((redis) => redis.lrem(list, 1, seq));
    const events = found.map(({ seq, row, text }) => ({ seq, row, body: bodyOf.get(seq) ?? bodyIn(text), isInline: hasBody(text) }));
    return { events, lostSeqs, to: from + found.length + lostSeqs.length };
  }

  function send(event: UnplannedEvent, stored: string, at: number): Sent {
    const { seq, body, isInline } = event;
    let plannedEvent: PlannedEvent;
    // A valid envelope is UTF-8, so its text has all of its bytes.
    let isWhole = isInline;
    try {
      plannedEvent = trackAndPlan(eventIn(event), event.row, stored, { ...untouched, at });
    } catch (error) {
      // It must not block later events: it is filtered with its fault, and can be backfilled.
      const { kind, account, source } = event.row;
      rules.failed?.(error, { event: kind ?? "", account, source });
      plannedEvent = setAsideEvent(event.row, stored, version, error);
      isWhole = false;
    }
    const row = version() + writeEventRow(plannedEvent.row);
    const result = commit.run({
      list: [seq, isWhole ? `${row}\n${body}` : row, ...plannedEvent.list],
      form: { kind: "P", usage: "", ...plannedEvent.form, counts: [...countsOfEvent(event.row, -1), ...plannedEvent.form.counts] },
      plan: plannedEvent.plan,
      reads: plannedEvent.reads,
    });
    return { plannedEvent, result };
  }

  /** Plans some unplanned events, the oldest first; `at` is unix ms. When it rejects with `StoreUnavailable`, some are planned. */
  async function planSome(at: number): Promise<PlannedSome> {
    const seqs = await link.run((redis) => redis.lrange(list, 0, mostSeqs - 1));
    const planned: Planned[] = [];
    const lost: string[] = [];
    /** Rows of subjects after all steps that were sent. */
    const rows = new Map<string, string>();
    /** False once an event was not planned, because another was next or its subject has changed: later ones fail, too. */
    let isInTurn = true;
    let isOvertaken = false;
    let inFlight: readonly Sent[] = [];

    async function sendAll(events: readonly UnplannedEvent[]): Promise<Sent[]> {
      const missing = new Set<string>();
      for (const { row } of events) {
        const name = row.subject;
        if (name !== null && !rows.has(name) && cache.known(name) === undefined) missing.add(name);
      }
      const loaded = await Promise.all([...missing].map(async (name) => [name, await cache.load(name)] as const));
      for (const [name, row] of loaded) rows.set(name, row);
      return events.map((event) => {
        const name = event.row.subject;
        const stored = name === null ? "" : (rows.get(name) ?? cache.known(name) ?? "");
        const sent = send(event, stored, at);
        if (name !== null && sent.plannedEvent.nextRow !== "") rows.set(name, sent.plannedEvent.nextRow);
        return sent;
      });
    }

    async function settle(sent: readonly Sent[]): Promise<void> {
      const results = await Promise.all(sent.map(({ result }) => result));
      for (const [index, { plannedEvent }] of sent.entries()) {
        const { subject, nextRow, row } = plannedEvent;
        const result = results[index] as StepResult;
        if (typeof result === "string") {
          if (subject !== null && nextRow !== "") cache.remember(subject, nextRow);
          const seq = seqIn(result);
          const { account, source, id: eventId, kind, headers, disposition, fault } = row;
          planned.push({ seq, account, source, eventId, kind, headers, disposition, fault, due: plannedEvent.due(seq, result) });
          continue;
        }
        if (isInTurn && result[0] === 3) isOvertaken = true;
        if (result[0] === 0 && subject !== null) cache.remember(subject, String(result[2]));
        isInTurn = false;
      }
    }

    let next = read(seqs, 0);
    for (let from = 0; from < seqs.length && isInTurn; ) {
      const { events, lostSeqs, to } = await next;
      from = to;
      lost.push(...lostSeqs);
      next = read(seqs, from);
      next.catch(() => {});
      const sent = await sendAll(events);
      for (const { result } of sent) result.catch(() => {});
      await settle(inFlight);
      inFlight = sent;
    }
    await settle(inFlight);
    return { planned, lost, left: seqs.length === 0 ? "none" : planned.length === 0 && isOvertaken ? "others" : "some" };
  }

  return {
    planSome,
    /** The seq that is planned next; null: none. */
    async next(): Promise<string | null> {
      return link.run((redis) => redis.lindex(list, 0));
    },
  };
}

function readable(text: string): EventRow | null {
  try {
    return readEventRow(rowJson(text));
  } catch {
    return null;
  }
}

const hasBody = (row: string): boolean => row.includes("\n");

const bodyIn = (row: string): string => row.slice(row.indexOf("\n", rowVersion(row).length) + 1);

/** The input of the rules, parsed from the body again. It was a valid envelope about a message when it was accepted. */
function eventIn({ row, body }: UnplannedEvent): EventToPlan {
  const parsed = parseEnvelopeText(body);
  if (!parsed.ok) throw new Error(parsed.error);
  const { envelope } = parsed;
  const subject = row.subject === null ? null : readSubjectName(row.subject);
  if (subject?.type !== "message") throw new Error("it is not about a message");
  return { envelope, subject: { type: "message", wamid: subject.key as Wamid, status: row.status, errorCode: row.errorCode } };
}

/** An event on which the rules failed: filtered. Its subject stays as it was; an unknown one is created as seen. */
function setAsideEvent(row: EventRow, stored: string, version: () => string, error: unknown): PlannedEvent {
  const plan = planText({ disposition: "filtered", verdicts: [] });
  const nextRow = stored === "" ? version() + writeSubjectRow({ ...unseenSubject, updatedAt: row.receivedAt }) : "";
  const after: EventRow = { ...row, disposition: "filtered", plan: plan.digest, fault: planningFault(error) };
  return {
    subject: row.subject,
    row: after,
    nextRow,
    plan,
    list: [row.subject ?? "", subjectVersion(row.subject, stored), nextRow],
    form: { routes: [], counts: countsOfEvent(after, 1), isTimed: false, isRare: false },
    reads: row.subject === null ? [] : [row.subject],
    due: () => [],
  };
}
