import { maskWamid } from "../../event/mask.ts";
import type { Post } from "../../sandbox/traffic/post.ts";
import type { PostResult } from "../../sandbox/traffic/post-result.ts";
import type { Io } from "../io.ts";
import { printable, withCommas } from "../output.ts";
import { createDrawnLine, isDue, partText } from "../progress.ts";
import { answerWord, sentId } from "./outcome.ts";

export interface TriggerShow {
  post(post: Post, result: PostResult, fault: string | null): void;
  /** Nothing more is drawn over. */
  leave(): void;
}

interface ShowSettings {
  readonly io: Io;
  readonly isJson: boolean;
  readonly now: () => number;
  /** All posts there will be; null when that is not known. */
  readonly total: number | null;
  /** True when the wamids were made up here, so that nobody's phone is in them. */
  readonly showsWamids: boolean;
}

/** On a terminal so many lines are printed before a bar takes their place. */
const linesOnTerminal = 50;

/** A line for each post; on a terminal a bar after the first ones, and with `--json` only how far it is, on standard error. */
export function createTriggerShow({ io, isJson, now, total, showsWamids }: ShowSettings): TriggerShow {
  const startedAt = now();
  let shownAt = startedAt;
  let posts = 0;
  let unexpected = 0;
  const line = createDrawnLine(io);
  const isMany = total !== null && total > linesOnTerminal;
  const progress = (): string => {
    const seconds = (now() - startedAt) / 1000;
    const speed = seconds < 0.2 ? "" : `  ${withCommas(Math.round(posts / seconds))}/s`;
    return `${withCommas(posts)} posts${speed}${unexpected === 0 ? "" : `  ${withCommas(unexpected)} unexpected`}`;
  };
  return {
    post(post, result, fault) {
      posts += 1;
      if (fault !== null) unexpected += 1;
      const isBar = io.isTerminal && !isJson && (isMany || posts > linesOnTerminal);
      if (!isJson && !isBar) {
        io.out(postLine(post, result, fault, showsWamids));
        return;
      }
      if (!isDue(isBar, shownAt, now()) && (isJson || posts !== total)) return;
      shownAt = now();
      if (isBar) line.draw(partText(total === null ? null : Math.min(1, posts / total), progress()));
      else io.err(progress());
    },
    leave: line.leave,
  };
}

/** `200 accepted      message.status delivered  01998d3e-…  wamid.HBg…  3 ms` */
export function postLine(post: Post, result: PostResult, fault: string | null, showsWamids: boolean): string {
  const { event, wamid, runId } = post.subject;
  const id = sentId(post.subject);
  const status = result.kind === "answered" ? String(result.status) : "---";
  const about = runId ?? (wamid === null ? null : showsWamids ? wamid : maskWamid(wamid));
  const parts = [
    `${status} ${answerWord(result).padEnd(12)}`,
    `${printable(event)}${statusWord(post)}`,
    id === null ? null : printable(id),
    about === null ? null : printable(about),
    post.sort === "status" || post.sort === "automation" ? null : post.sort,
    `${Math.round(result.tookMs)} ms`,
    fault === null ? null : `!! ${fault}`,
    fault !== null && result.kind === "answered" && result.said !== undefined && result.said !== "" ? printable(result.said) : null,
  ];
  return parts.filter((part) => part !== null).join("  ");
}

function statusWord(post: Post): string {
  try {
    const { status } = (JSON.parse(post.body.toString("utf8")) as { data: { status?: unknown } }).data;
    return typeof status === "string" ? ` ${printable(status)}` : "";
  } catch {
    return "";
  }
}
