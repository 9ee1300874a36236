import { randomUUID } from "node:crypto";
import type { Settlement } from "../model/delivery.ts";
import type { QuarantinedBody } from "../model/event.ts";
import type { Covering, HydrationEnd } from "../model/hydration.ts";
import type { EventId } from "../model/ids.ts";
import type { SendKey, StoredSend } from "../model/send.ts";
import type { ReleasedEvent } from "./port.ts";
import type { DueDelivery, Registered, Rules } from "./rules.ts";
import type { Work } from "./sql/ops.ts";
import { type Accepted, type Arriving, accept } from "./work/accept.ts";
import { type SettledOutcome, type Settling, settle } from "./work/attempts.ts";
import { type Backfilled, type Backfilling, backfill } from "./work/backfill.ts";
import { type Batches, each } from "./work/batches.ts";
import { type Acknowledged, type Counts, countAcknowledged, createCounting, type Sampling, sampleGauges } from "./work/counts.ts";
import { endLeftExchanges, settleExchanges } from "./work/exchanges.ts";
import { settleCovered, settleTarget } from "./work/hydration-passes.ts";
import { type Held, holdLease, leaveProcess as leave, type Process } from "./work/leases.ts";
import { expireParked, releaseParked } from "./work/parking.ts";
import { createPlanNumbers, type NumberedPlan } from "./work/plans.ts";
import { type Quarantined, storeQuarantined } from "./work/quarantine.ts";
import { type Registering, register } from "./work/register.ts";
import { release } from "./work/release.ts";
import { type ReplayedFound, type ReplayingFound, type Requeued, type Retrying, replay, retry } from "./work/replay.ts";
import { endPause, resume } from "./work/route-notes.ts";
import { type Beginning, beginSends, type Ending, findSend, forgetSends, settleSends } from "./work/sends.ts";
import { type Naming, nameRequests } from "./work/state-rows.ts";

interface CommandParts {
  readonly rules: Rules;
  /** Names this process in the counts; empty where it is the only one. */
  readonly writer: string;
  /** The leases of this process. */
  readonly held: () => Held;
}

/** What a batch leaves. `plans`: those that are stored once the transaction is. */
interface Outcomes<Out> {
  readonly outcomes: readonly Out[];
  readonly plans?: readonly NumberedPlan[];
}

export type Commands = ReturnType<typeof createCommands>;

/** The commands of both databases, with what they remember between batches. */
export function createCommands({ rules, writer, held }: CommandParts) {
  const plans = createPlanNumbers();
  const begin = createCounting(writer).begin;
  const planning = { rules, plans };
  const parking = { ...planning, counts: begin };
  const process: Process = { id: randomUUID(), isAlone: writer === "" };

  /** Commands that count, in one write for the batch. */
  const counted = <In, Out>(all: (batch: readonly In[], counts: Counts) => Work<Outcomes<Out>>): Batches<In, Out> => ({
    *work(batch) {
      const counts = begin();
      const { outcomes, plans: stored = [] } = yield* all(batch, counts);
      yield* counts.write();
      return { outcomes, stored: () => plans.noteStored(stored) };
    },
  });
  const uncounted = <In, Out>(all: (batch: readonly In[]) => Work<readonly Out[]>): Batches<In, Out> => ({
    *work(batch) {
      return { outcomes: yield* all(batch) };
    },
  });

  return {
    accept: counted<Arriving, Accepted>((batch, counts) => accept(batch, planning, counts)),
    settle: uncounted<Settling, SettledOutcome>((batch) => settle(batch, { counts: begin, held: held() })),
    quarantine: counted<QuarantinedBody, Quarantined>(function* (batch, counts) {
      return { outcomes: yield* storeQuarantined(batch, counts) };
    }),
    release: counted<ReleasedEvent, Accepted | null>((batch, counts) => release(batch, planning, counts)),
    retry: uncounted<Retrying, Requeued | null>(retry),
    replay: uncounted<ReplayingFound, ReplayedFound>(replay),
    backfill: counted<Backfilling, Backfilled>((batch, counts) => backfill(batch, planning, counts)),
    /** Apart from others: a heartbeat that waits behind them ends the leases. */
    lease: each((make: () => Work<unknown>) => make()),
    nameRequest: uncounted<Naming, EventId>(nameRequests),
    resume: each(resume),
    endPause: each(endPause),
    register: uncounted<Registering, readonly Registered[]>((batch) => register(batch, parking)),
    acknowledged: counted<Acknowledged, void>(function* (batch, counts) {
      return { outcomes: batch.map((acknowledged) => countAcknowledged(counts, acknowledged)) };
    }),
    sampleGauges: each((sampling: Sampling) => sampleGauges(sampling, writer)),
    releaseParked: (now: number, limit: number) => releaseParked(now, limit, parking),
    expireParked: (now: number, limit: number) => expireParked(now, limit, parking),
    settleExchange: uncounted<Settlement, SettledOutcome>((batch) => settleExchanges(batch, begin)),
    endLeftExchanges: (at: number, reason: string, limit: number) => endLeftExchanges(at, reason, limit, begin(), process),
    findSend: (key: SendKey) => findSend(key, process),
    beginSend: uncounted<Beginning, StoredSend | null>((batch) => beginSends(batch, process)),
    settleSend: uncounted<Ending, readonly DueDelivery[]>((batch) => settleSends(batch, process, parking)),
    forgetSends: (before: number, limit: number) => forgetSends(before, limit, process),
    holdLease: (name: string, forMs: number) => holdLease(name, forMs, process),
    leave: () => leave(process),
    isAlone: process.isAlone,
    settleTarget: (pass: Covering, target: string, wamid: string | null, now: number) => settleTarget(pass, target, wamid, now, parking),
    settleCovered: (pass: Covering, end: HydrationEnd, now: number, limit: number) => settleCovered(pass, end, now, limit, parking),
  };
}
