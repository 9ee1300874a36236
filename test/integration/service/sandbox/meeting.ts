import { expect, onTestFinished } from "vitest";
import { Secret } from "../../../../src/model/secret.ts";
import { type Happening, type Sandbox, type SandboxOptions, startSandbox } from "../../../../src/sandbox/start-sandbox.ts";
import { createServiceClient, type ServiceClient, type ServiceClientSettings } from "../../../../src/service/client.ts";
import type { Admission, CallOutcome, CallRequest } from "../../../../src/service/endpoints.ts";
import type { ServiceError } from "../../../../src/service/errors.ts";
import { createLimiter, type Limiter, type LimiterOptions } from "../../../../src/service/limits/limiter.ts";
import { createManualClock, type ManualClock, settled } from "../../../harness/manual-clock.ts";
import { type SeenUsage, usageOf } from "../../../harness/sandbox-usage.ts";
import { longestWaitMs } from "../../../harness/until.ts";
import { failureOf } from "../client/open-client.ts";

/** One user of the account: a client under a limiter of its own. */
export interface Party {
  readonly client: ServiceClient;
  readonly limiter: Limiter;
  /** Every call that was let go: when, and what came of it (null: not yet). Times are unix ms of the clock. */
  readonly calls: { readonly request: CallRequest; readonly at: number; endedAt: number; outcome: CallOutcome | null }[];
}

interface PartySettings extends Partial<Omit<ServiceClientSettings, "apiKey" | "admission" | "clock">> {
  readonly limits?: Partial<LimiterOptions>;
}

type Refused = Extract<Happening, { what: "refused" }> & { readonly at: number };

/** Client and sandbox on one clock that stands still until told: minutes pass in milliseconds, calls are real HTTP. */
export interface Meeting {
  readonly clock: ManualClock;
  readonly sandbox: Sandbox;
  /** Every call that the sandbox answered with an error, and when. */
  readonly refused: Refused[];
  join(settings?: PartySettings): Party;
  /** Lets so much time pass, and every call come to its end before each step of it. */
  pass(ms: number): Promise<void>;
  /** Lets time pass until the promise has come to its end, at most a quarter of an hour; gives how much passed. */
  finish(promise: Promise<unknown>): Promise<number>;
  /** What the sandbox has counted. */
  usage(): Promise<SeenUsage>;
  /** A phone that nobody has written to yet. */
  phone(): string;
  /** Calls that are held somewhere until time passes: they are not waited for. */
  held: () => number;
}

/** Small against every deadline and wait there is, so that what is on its way is never overtaken by much. */
const stepMs = 100;
export async function meet(options: SandboxOptions = {}): Promise<Meeting> {
  const clock = createManualClock(Date.UTC(2026, 10, 10, 12));
  const refused: Refused[] = [];
  const failed: unknown[] = [];
  const sandbox = await startSandbox({
    plan: "enterprise",
    seed: "meeting",
    ...options,
    clock,
    onHappening(happening) {
      if (happening.what === "refused") refused.push({ ...happening, at: clock.now() });
      if (happening.what === "failed") failed.push(happening.error);
    },
  });
  const parties: Party[] = [];
  /** Calls let go and not settled. */
  let underWay = 0;
  let phones = 0;
  onTestFinished(async () => {
    const closing = Promise.all(parties.map(({ client }) => client.close(0)));
    await clock.advance(0);
    await closing;
    await sandbox.close();
    expect(failed).toEqual([]);
  });

  const meeting: Meeting = {
    clock,
    sandbox,
    refused,
    held: () => 0,
    join({ limits, ...settings } = {}) {
      const plan = sandbox.plan() === "escala" ? "escala" : "enterprise";
      const limiter = createLimiter({ plan, share: 1, clock, ...limits } as LimiterOptions);
      const calls: Party["calls"] = [];
      const admission: Admission = {
        async enter(request) {
          const permit = await limiter.enter(request);
          const call: Party["calls"][number] = { request, at: clock.now(), endedAt: Number.NaN, outcome: null };
          calls.push(call);
          underWay += 1;
          return {
            settle(outcome) {
              if (call.outcome !== null) throw new Error("a permit was settled twice");
              call.outcome = outcome;
              call.endedAt = clock.now();
              underWay -= 1;
              permit.settle(outcome);
            },
          };
        },
      };
      const client = createServiceClient({
        baseUrl: sandbox.url,
        random: () => 0.5,
        ...settings,
        apiKey: new Secret(sandbox.key),
        admission,
        clock,
      });
      const party = { client, limiter, calls };
      parties.push(party);
      return party;
    },
    async pass(ms) {
      for (let left = ms; left > 0; left -= stepMs) {
        await quiet();
        await clock.advance(Math.min(stepMs, left));
      }
      await quiet();
    },
    async finish(promise) {
      const from = clock.now();
      let isOver = false;
      const over = () => {
        isOver = true;
      };
      promise.then(over, over);
      for (await quiet(); !isOver; await quiet()) {
        if (clock.now() - from >= 15 * minute) throw new Error("not over after 15 minutes of the clock");
        await clock.advance(stepMs);
      }
      return clock.now() - from;
    },
    usage: () => usageOf(sandbox),
    phone() {
      phones += 1;
      return `+54911${String(phones).padStart(4, "0")}1234`;
    },
  };

  /** Until every call that was let go has its answer, or is held. */
  async function quiet(): Promise<void> {
    const deadline = performance.now() + longestWaitMs;
    await settled();
    while (underWay > meeting.held()) {
      if (performance.now() > deadline) throw new Error("a call hangs");
      await settled();
    }
  }
  return meeting;
}

/** The value of a call, letting time pass until it is there. */
export async function resultOf<T>(meeting: Meeting, call: Promise<T>): Promise<T> {
  await meeting.finish(call);
  return call;
}

/** The error of a call that must fail, letting time pass until it has. */
export async function errorOf(meeting: Meeting, call: Promise<unknown>): Promise<ServiceError> {
  await meeting.finish(call);
  return failureOf(call);
}

export const minute = 60_000;
export const day = 24 * 60 * minute;
