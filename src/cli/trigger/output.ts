import { maskWamid } from "../../model/mask.ts";
import { describeFixture } from "../../sandbox/fixtures/fixture.ts";
import { noEnvelope, requestKind } from "../../sandbox/fixtures/fixture-posts.ts";
import type { Post, PostResult } from "../../sandbox/traffic/answers.ts";
import type { Io } from "../io.ts";
import { createProgressBar, speedText } from "../progress.ts";

interface ReportParts {
  readonly io: Io;
  readonly isJson: boolean;
  readonly now: () => number;
  /** All posts there will be; null when that is not known. */
  readonly total: number | null;
  /** True when the wamids are generated and hold no real phone. */
  readonly showsWamids: boolean;
}

/** On a terminal so many lines are printed before a bar takes their place. */
const linesOnTerminal = 50;
const mostEvents = 1000;
const mostFaults = 100;

/**
 * Prints a line for each post; on a terminal a bar after the first ones, and with `--json` only how
 * far it is, on standard error. Sums up. Memory: the first thousand posts and the first hundred
 * faults, however many there are.
 */
export function createReport({ io, isJson, now, total, showsWamids }: ReportParts) {
  const startedAt = now();
  const bar = createProgressBar(io, isJson, { now, isPatient: true });
  const isMany = total !== null && total > linesOnTerminal;
  /** By the relay's result word, or by HTTP status, or `unanswered`. */
  const answers: Record<string, number> = {};
  const faults: string[] = [];
  const events: ReturnType<typeof triggeredEvent>[] = [];
  let posts = 0;
  let unexpected = 0;

  function fault(text: string): void {
    unexpected += 1;
    if (faults.length < mostFaults) faults.push(text);
  }

  return {
    fault,
    post(post: Post, result: PostResult, wrong: string | null): void {
      posts += 1;
      const word = answerWord(result);
      answers[word] = (answers[word] ?? 0) + 1;
      if (wrong !== null) fault(`${sentId(post.subject) ?? post.subject.event}: ${wrong}`);
      if (events.length < mostEvents) events.push(triggeredEvent(post, result, showsWamids));
      const isBar = io.isTerminal && !isJson && (isMany || posts > linesOnTerminal);
      if (!isJson && !isBar) io.out(postLine(post, result, wrong, showsWamids));
      else {
        const part = total === null || isJson ? null : Math.min(1, posts / total);
        bar.show(
          part,
          speedText(posts, "posts", now() - startedAt, unexpected, "unexpected"),
          isBar && posts === total,
        );
      }
    },
    leave: bar.leave,
    outcome: () => ({
      posts,
      answers,
      unexpected,
      faults,
      events,
      eventsLeftOut: posts - events.length,
    }),
  };
}

/** `200 accepted      message.status delivered  01998d3e-…  wamid.HBg…  3 ms` */
export function postLine(
  post: Post,
  result: PostResult,
  fault: string | null,
  showsWamids: boolean,
): string {
  const { event, runId } = post.subject;
  const parts = [
    `${result.kind === "answered" ? result.status : "---"} ${answerWord(result).padEnd(12)}`,
    `${event}${statusWord(post)}`,
    sentId(post.subject),
    runId ?? shownWamid(post.subject, showsWamids),
    post.sort === "status" || post.sort === "automation" ? null : post.sort,
    `${Math.round(result.tookMs)} ms`,
    fault === null ? null : `!! ${fault}`,
    fault !== null && result.kind === "answered" ? result.said : null,
  ];
  return parts.filter((part) => part).join("  ");
}

function statusWord(post: Post): string {
  try {
    const { status } = describeFixture("", post.body.toString("utf8"));
    return status === null ? "" : ` ${status}`;
  } catch {
    return "";
  }
}

function answerWord(result: PostResult): string {
  return result.kind === "unanswered" ? "unanswered" : (result.answer ?? String(result.status));
}

function shownWamid({ wamid }: Post["subject"], showsWamids: boolean): string | null {
  return wamid === null || showsWamids ? wamid : maskWamid(wamid);
}

/**
 * The id that the relay knows it by; null for a body that is no envelope, which the relay names
 * itself.
 */
function sentId({ id, event }: Post["subject"]): string | null {
  return event === requestKind || event === noEnvelope ? null : id;
}

/**
 * As `--json` has it: status and answer are null when there was none, the answer also when it is
 * not a relay's.
 */
function triggeredEvent({ subject, sort }: Post, result: PostResult, showsWamids: boolean) {
  const { event, runId } = subject;
  const wamid = shownWamid(subject, showsWamids);
  const { status, answer } = result.kind === "answered" ? result : { status: null, answer: null };
  return { id: sentId(subject), event, wamid, runId, sort, status, answer, tookMs: result.tookMs };
}
