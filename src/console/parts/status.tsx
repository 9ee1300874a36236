import { messageStatuses, runStatuses, type StatusRule } from "../../model/statuses.ts";

/** What a status means for a person: shape and color say it together. */
export type Tone = "ok" | "attention" | "stopped" | "open" | "quiet";

export const shapes: Readonly<Record<Tone, string>> = {
  ok: "●",
  attention: "▲",
  stopped: "■",
  open: "○",
  quiet: "·",
};

function tonesOf(rules: Readonly<Record<string, StatusRule>>): Record<string, Tone> {
  return Object.fromEntries(
    Object.entries(rules).map(([status, { error, stage }]) => [
      status,
      error ? "stopped" : stage === "open" ? "open" : "ok",
    ]),
  );
}

const tones: Readonly<Record<string, Tone>> = {
  ...tonesOf(messageStatuses),
  ...tonesOf(runStatuses),
  // Dispositions
  routed: "ok",
  filtered: "quiet",
  ignored: "quiet",
  quarantined: "attention",
  unassigned: "attention",
  parked: "open",
  released: "quiet",
  // Deliveries
  waiting: "open",
  held: "open",
  dead: "stopped",
  // Destinations and reports
  ok: "ok",
  attention: "attention",
  stopped: "stopped",
  applied: "ok",
  refused: "stopped",
  matched: "ok",
};

/** A longer word is one that a sender made up; it may be cut off. */
const longWord = 24;

/** Unknown words look quiet. */
export const toneOf = (word: string): Tone => tones[word] ?? "quiet";

/** A word such as `delivered`, with its shape and color. */
export function Status({
  word,
  tone = toneOf(word),
  title,
}: {
  word: string;
  tone?: Tone;
  title?: string;
}) {
  return (
    <span class={`status ${tone}`} title={title ?? (word.length > longWord ? word : undefined)}>
      <span class="shape" aria-hidden="true">
        {shapes[tone]}
      </span>
      <bdi>{word}</bdi>
    </span>
  );
}
