import { noEnvelope, requestKind } from "../../sandbox/fixtures/fixture-posts.ts";
import type { Post } from "../../sandbox/traffic/post.ts";
import type { PostResult } from "../../sandbox/traffic/post-result.ts";

/** One post and its answer, as `--json` has it. */
interface TriggeredEvent {
  /** Null for a body that has none. */
  readonly id: string | null;
  readonly event: string;
  readonly wamid: string | null;
  readonly runId: string | null;
  readonly sort: Post["sort"];
  /** HTTP status; null without an answer. */
  readonly status: number | null;
  /** The relay's word; null for an answer that is none of a relay's. */
  readonly answer: string | null;
  readonly tookMs: number;
}

export interface Outcome {
  readonly posts: number;
  /** By the relay's word, or by HTTP status, or `unanswered`. */
  readonly answers: Readonly<Record<string, number>>;
  readonly unexpected: number;
  /** The first of them, in words. */
  readonly faults: readonly string[];
  /** The first posts. */
  readonly events: readonly TriggeredEvent[];
  readonly eventsLeftOut: number;
}

export interface OutcomeNotes {
  note(post: Post, result: PostResult, fault: string | null): void;
  /** Something else that is not as expected. */
  fault(text: string): void;
  outcome(): Outcome;
}

const mostEvents = 1000;
const mostFaults = 100;

/** Memory: the first thousand posts and the first hundred faults, however many there are. */
export function createOutcomeNotes(): OutcomeNotes {
  const answers: Record<string, number> = {};
  const faults: string[] = [];
  const events: TriggeredEvent[] = [];
  let posts = 0;
  let unexpected = 0;
  const fault = (text: string): void => {
    unexpected += 1;
    if (faults.length < mostFaults) faults.push(text);
  };
  return {
    fault,
    note(post, result, wrong) {
      posts += 1;
      const word = answerWord(result);
      answers[word] = (answers[word] ?? 0) + 1;
      if (wrong !== null) fault(`${sentId(post.subject) ?? post.subject.event}: ${wrong}`);
      if (events.length < mostEvents) events.push(triggeredEvent(post, result));
    },
    outcome: () => ({ posts, answers: { ...answers }, unexpected, faults, events, eventsLeftOut: posts - events.length }),
  };
}

/** `accepted`, `unauthorized`, or the HTTP status, or `unanswered`. */
export function answerWord(result: PostResult): string {
  return result.kind === "unanswered" ? "unanswered" : (result.answer ?? String(result.status));
}

/** The id that the relay knows it by; null for a body that is no envelope, which the relay names itself. */
export function sentId({ id, event }: Post["subject"]): string | null {
  return event === requestKind || event === noEnvelope ? null : id;
}

function triggeredEvent({ subject, sort }: Post, result: PostResult): TriggeredEvent {
  const { event, wamid, runId } = subject;
  const answered = result.kind === "answered" ? { status: result.status, answer: result.answer } : { status: null, answer: null };
  return { id: sentId(subject), event, wamid, runId, sort, ...answered, tookMs: result.tookMs };
}
