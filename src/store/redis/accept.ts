import { isTruncated } from "../../model/envelope.ts";
import type { QuarantinedBody, ReceivedEvent } from "../../model/event.ts";
import type { HydrationStart } from "../../model/hydration.ts";
import type { AcceptOutcome, Rules } from "../rules.ts";
import type { RedisLink } from "./client.ts";
import { type Commit, lostTheRace, mostTries, type Operation, type StepResult, seqIn } from "./commit.ts";
import { inlineBytes, rowWithBody, writeEventRow } from "./event-rows.ts";
import { createGroupCommit } from "./group-commit.ts";
import { countsOfEvent } from "./history.ts";
import { placesOfEvent } from "./keys.ts";
import { arrivedRow, createTrackAndPlan, idKey, type StepExtras, someHeaders, usageName } from "./plans.ts";
import { type Argument, readScript } from "./script.ts";
import type { SubjectCache } from "./subjects.ts";
import { createKeyedMutex } from "./transact.ts";

interface AcceptParts {
  /** Prefix of all keys. */
  readonly base: string;
  readonly commit: Commit;
  readonly rules: Rules;
  readonly cache: SubjectCache;
  readonly version: () => string;
  /** Operations that store the hydration of a truncated event, in its step. */
  readonly hydrating: (event: ReceivedEvent, start: HydrationStart) => readonly Operation[] | Promise<readonly Operation[]>;
  /** Workers plan events about messages: this process only accepts them. */
  readonly plansLater: boolean;
  /** Accepts an event without planning it. */
  readonly acceptOnly: (event: ReceivedEvent) => Promise<AcceptOutcome>;
  /** Called when an event was stored, with its seq. */
  readonly stored: (seq: number) => void;
}

/** Accepts events, in any number of processes. */
export function createAccept({ base, commit, rules, cache, version, hydrating, plansLater, acceptOnly, stored: noteStored }: AcceptParts) {
  const trackAndPlan = createTrackAndPlan(base, rules, version);
  const mutex = createKeyedMutex();

  /** With separate workers, events about messages (nearly all) are only deduplicated and stored here; planning.ts does the rest. */
  function accept(event: ReceivedEvent, proxyRoute: string | null = null): Promise<AcceptOutcome> {
    return plansLater && event.subject.type === "message" && proxyRoute === null ? acceptOnly(event) : acceptAndPlan(event, proxyRoute);
  }

  /** After a lost race for a subject it retries under the subject's mutex: of many concurrent retries only one would win each time. */
  async function acceptAndPlan(event: ReceivedEvent, proxyRoute: string | null): Promise<AcceptOutcome> {
    const truncated = isTruncated(event.envelope) ? await extrasOfTruncated(event) : notTruncated;
    const places = placesOfEvent(event.envelope.id);
    const extras: StepExtras = {
      isHydrating: truncated.isHydrating,
      operations: places.length === 0 ? truncated.operations : [...truncated.operations, ["list_seq", ...places]],
      at: event.receivedAt,
      proxyRoute,
      separate: event.body.length <= inlineBytes ? null : event.body,
    };
    const arrived = arrivedRow(event);
    const name = arrived.subject;
    const id = idKey(event);
    const usage = usageName(event);
    const others = name === null ? undefined : mutex.over(name);
    if (others !== undefined) await others;
    let unlock: (() => void) | null = null;
    try {
      for (let tries = 0; tries < mostTries; tries++) {
        const stored = name === null ? "" : (cache.known(name) ?? (await cache.load(name)));
        const planned = trackAndPlan(event, arrived, stored, extras);
        const row = rowWithBody(version() + writeEventRow(planned.row), extras.separate === null ? event.body : null);
        const result = await commit.run({
          list: [id, row, ...planned.list],
          form: { kind: "A", usage, ...planned.form },
          account: event.account,
          plan: planned.plan,
          reads: [id, ...planned.reads],
          bytes: event.body.length,
          ...usages(usage, event),
        });
        if (typeof result === "string") {
          if (name !== null && planned.nextRow !== "") cache.remember(name, planned.nextRow);
          const seq = seqIn(result);
          noteStored(seq);
          return { result: "accepted", seq, disposition: planned.row.disposition, due: planned.due(seq, result) };
        }
        if (result[0] === 2) return duplicateOf(result);
        if (result[0] === 3) return acceptOnly(event);
        if (name === null) continue;
        cache.remember(name, String(result[2]));
        unlock ??= await mutex.take(name);
      }
    } finally {
      unlock?.();
    }
    throw lostTheRace("the message");
  }

  async function extrasOfTruncated(event: ReceivedEvent): Promise<Pick<StepExtras, "isHydrating" | "operations">> {
    const { account, envelope, subject } = event;
    const hydration = rules.hydration({ event: envelope.event, account, hasSubject: subject.type !== "none" });
    if (hydration === null) return notTruncated;
    return { isHydrating: hydration.state === "waiting", operations: await hydrating(event, hydration) };
  }

  async function quarantine(body: QuarantinedBody): Promise<number> {
    const { account, source, origin, receivedAt, secret } = body;
    const row = writeEventRow({
      subject: null,
      account,
      source,
      id: null,
      kind: null,
      origin,
      receivedAt,
      createdAt: null,
      secret,
      status: null,
      previousStatus: null,
      moved: false,
      errorCode: null,
      disposition: "quarantined",
      plan: null,
      parkedUntil: null,
      fault: body.error,
      headers: someHeaders(body.headers),
      size: body.body.length,
      release: null,
    });
    const isInline = body.body.length <= inlineBytes;
    const usage = usageName(body);
    const list: Argument[] = [
      "Q",
      rowWithBody(version() + row, isInline ? body.body : null),
      isInline ? "" : body.body,
      String(receivedAt),
      usage,
      ...countsOfEvent({ source, receivedAt, disposition: "quarantined" }, 1).slice(0, 2),
    ];
    const [, seq] = await commit.run({ list, bytes: body.body.length, ...usages(usage, body) });
    return Number(seq);
  }

  return { accept, quarantine };
}

const notTruncated = { isHydrating: false, operations: [] };

const usages = (name: string, { receivedAt }: Pick<ReceivedEvent, "receivedAt">) =>
  name === "" ? {} : { usage: { name, at: receivedAt } };

function duplicateOf([, seq, conflict]: Exclude<StepResult, string>): AcceptOutcome {
  return { result: "duplicate", seq: Number(seq), conflict: conflict === 1 };
}

/** An event as lua/accept.lua reads it. */
interface AcceptStep {
  readonly event: ReceivedEvent;
  readonly id: string;
  readonly row: Argument;
}

interface AcceptOnlyParts {
  /** Prefix of all keys. */
  readonly base: string;
  readonly link: RedisLink;
  readonly version: () => string;
  readonly committed: (tookMs: number, writes: number) => void;
  readonly arriving?: (() => boolean) | undefined;
  /** Called when the list of unplanned events is no longer empty. */
  readonly waiting: () => void;
  /** Called when events were stored, with the last seq. */
  readonly stored: (seq: number) => void;
}

const acceptScript = readScript("accept", ["events"]);

/** Deduplicates and stores events without tracking or planning them (planning.ts). */
export function createAcceptOnly({ base, link, version, committed, arriving, waiting, stored }: AcceptOnlyParts) {
  const commit = createGroupCommit<AcceptStep, AcceptOutcome>({
    write: (steps) => writeAcceptBatch(base, steps),
    workOf: () => 1,
    bytesOf: ({ event }) => event.body.length,
    async send(list, steps) {
      const answer = (await link.run((redis) => acceptScript.run(redis, `${base}seq`, list))) as Answer;
      if (answer[1] === 1) waiting();
      const duplicates = (answer.length - 2) / 3;
      stored(answer[0] + steps.length - duplicates);
      return outcomesOf(answer, steps.length);
    },
    committed,
    arriving,
  });

  return {
    acceptOnly(event: ReceivedEvent): Promise<AcceptOutcome> {
      const isInline = event.body.length <= inlineBytes;
      const row = rowWithBody(version() + writeEventRow(arrivedRow(event)), isInline ? event.body : null);
      return commit.run({ event, id: idKey(event), row });
    },
    idle: commit.idle,
  };
}

/** `[seq before the first, 1: nothing waited before them, …(place from 1, seq, 1: other bytes) of each duplicate]`. */
type Answer = readonly [before: number, isFirst: number, ...duplicates: (number | string)[]];

function outcomesOf([before, , ...duplicates]: Answer, count: number): AcceptOutcome[] {
  const outcomes: AcceptOutcome[] = [];
  let seq = before;
  let next = 0;
  for (let place = 1; place <= count; place++) {
    if (duplicates[next] === place) {
      outcomes.push({ result: "duplicate", seq: Number(duplicates[next + 1]), conflict: duplicates[next + 2] === 1 });
      next += 3;
    } else {
      seq += 1;
      outcomes.push({ result: "accepted", seq, disposition: "accepted", due: [] });
    }
  }
  return outcomes;
}

/** Consecutive events with the same secret usage and counter of the history. */
interface EventGroup {
  readonly name: string;
  readonly tail: string;
  readonly field: string;
  count: number;
  first: number;
  last: number;
}

/** Sends what events have in common once: an argument costs Redis a third of a write. */
function writeAcceptBatch(base: string, steps: readonly AcceptStep[]): Argument[] {
  const accounts = new Set<string>();
  const groups: EventGroup[] = [];
  const separate: Argument[] = [];
  const made: Argument[] = [];
  const places: Argument[] = [];
  const list: Argument[] = [base, String(steps.length)];
  let group: EventGroup | undefined;
  for (const [index, { event, id, row }] of steps.entries()) {
    const { account, source, receivedAt, body, origin } = event;
    list.push(id, row);
    accounts.add(account);
    const name = usageName(event);
    const [tail, field] = countsOfEvent({ source, receivedAt, disposition: "accepted" }, 1);
    if (group?.name !== name || group.tail !== tail || group.field !== field) {
      group = { name, tail, field, count: 0, first: receivedAt, last: receivedAt };
      groups.push(group);
    }
    group.count += 1;
    group.first = Math.min(group.first, receivedAt);
    group.last = Math.max(group.last, receivedAt);
    if (body.length > inlineBytes) separate.push(String(index + 1), body);
    // Events that the relay made itself are counted as such at once.
    if (origin !== "webhook") made.push(String(index + 1), account, arrivedRow(event).subject ?? "");
    for (const place of placesOfEvent(event.envelope.id)) places.push(String(index + 1), place);
  }
  list.push(String(accounts.size), ...accounts, String(groups.length));
  for (const { name, count, first, last, tail, field } of groups) list.push(name, String(count), String(first), String(last), tail, field);
  list.push(String(separate.length / 2), ...separate, String(made.length / 3), ...made, String(places.length / 2), ...places);
  return list;
}
