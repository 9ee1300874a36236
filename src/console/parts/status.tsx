/** What a status means for a person: shape and color say it together. */
export type Tone = "ok" | "attention" | "stopped" | "open" | "quiet";

export const shapes: Readonly<Record<Tone, string>> = { ok: "●", attention: "▲", stopped: "■", open: "○", quiet: "·" };

const tones: Readonly<Record<string, Tone>> = {
  // Messages and runs
  pending: "open",
  sent: "open",
  delivered: "ok",
  read: "ok",
  failed: "stopped",
  started: "open",
  completed: "ok",
  // Dispositions
  routed: "ok",
  filtered: "quiet",
  ignored: "quiet",
  quarantined: "attention",
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

/** A word such as `delivered`, with its shape and color. Unknown words look quiet. */
export function Status({ word, tone = tones[word] ?? "quiet", title }: { word: string; tone?: Tone; title?: string }) {
  return (
    <span class={`status ${tone}`} title={title ?? (word.length > longWord ? word : undefined)}>
      <span class="shape" aria-hidden="true">
        {shapes[tone]}
      </span>
      <bdi>{word}</bdi>
    </span>
  );
}
