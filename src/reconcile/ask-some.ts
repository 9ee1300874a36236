import { afterAnswer, afterFailure, afterMissing, released } from "./judge.ts";
import type { AskTimes } from "./next-ask.ts";
import type { ClaimedAsk, Service, SettledAsk, Tracking } from "./port.ts";
import type { PassStop } from "./summary.ts";

/** Calls under way at once; the limiter spreads them over the minute besides. */
const atOnce = 8;
/** Failures in a row after which the service counts as not reachable. */
const failuresInRow = 5;

export const askOutcomes = ["changed", "unchanged", "missing", "failed"] as const;
export type AskOutcome = (typeof askOutcomes)[number];

export interface AskingParts {
  readonly service: Service;
  readonly tracking: Tracking;
  readonly times: AskTimes;
  readonly now: () => number;
  readonly asked: (account: string, outcome: AskOutcome) => void;
  /** A fault nobody foresaw. */
  readonly failed: (account: string, error: unknown) => void;
}

/**
 * Asks about claimed messages, and gives what became of each. The first goes alone: a key that is refused costs one
 * call of the 20 bad ones a minute that block the address. Ends early when the service cannot be asked, or patience is over.
 */
export async function askSome(
  account: string,
  claims: readonly ClaimedAsk[],
  patience: AbortSignal,
  { service, tracking, times, now, asked, failed }: AskingParts,
): Promise<{ settled: SettledAsk[]; stopped: PassStop | null }> {
  const settled: SettledAsk[] = [];
  const left = claims.toReversed();
  let stopped: PassStop | null = null;
  let inRow = 0;

  async function askOne(ask: ClaimedAsk): Promise<void> {
    const answer = await service.ask(account, ask.messageId, patience);
    switch (answer.type) {
      case "found": {
        inRow = 0;
        // Registered with the id of another message: what it tells is not about this one.
        if (answer.wamid !== ask.wamid) return end("missing", { message: ask.message, until: ask.until, end: "missing", at: now() });
        const isNews = tracking.moves(ask.state, answer.status, answer.errorCode) && (await tracking.learn(account, ask, answer));
        return end(isNews ? "changed" : "unchanged", afterAnswer(ask, answer.status, now(), times));
      }
      case "missing":
        inRow = 0;
        return end("missing", afterMissing(ask, answer.isCredible, now(), times));
      case "faulty":
        stopped ??= { ...answer.fault, until: null };
        return end("failed", afterFailure(ask, now()));
      case "failed":
        inRow += 1;
        if (inRow >= failuresInRow) stopped ??= { reason: "unreachable", until: null };
        return end("failed", afterFailure(ask, now()));
      case "held":
        stopped ??= { reason: answer.reason, until: answer.until };
        settled.push(released(ask));
        return;
      case "not-asked":
        settled.push(released(ask));
    }
  }

  function end(outcome: AskOutcome, one: SettledAsk): void {
    settled.push(one);
    asked(account, outcome);
  }

  async function work(most: number): Promise<void> {
    for (let made = 0; made < most && stopped === null && !patience.aborted; made++) {
      const ask = left.pop();
      if (ask === undefined) return;
      try {
        await askOne(ask);
      } catch (error) {
        failed(account, error);
        end("failed", afterFailure(ask, now()));
        inRow += 1;
        if (inRow >= failuresInRow) stopped ??= { reason: "unreachable", until: null };
      }
    }
  }

  await work(1);
  await Promise.all(Array.from({ length: atOnce }, () => work(Number.POSITIVE_INFINITY)));
  settled.push(...left.map(released));
  return { settled, stopped };
}
