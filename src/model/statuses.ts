/**
 * What a status means. Tracking, storage, polling, the sandbox and docs/concepts/message-states.md
 * follow the tables below.
 */
export interface StatusRule {
  /** A status replaces only one of a lower rank. Of two with the same rank, the first stays. */
  readonly rank: number;
  /**
   * `open`: another status is expected. `settled`: another one may still come. `final`: none comes.
   */
  readonly stage: "open" | "settled" | "final";
  readonly error: boolean;
}

export interface MessageStatusRule extends StatusRule {
  readonly direction: "outbound" | "inbound";
  readonly webhook: boolean;
}

export interface RunStatusRule extends StatusRule {
  /** The webhook event that reports it; null: none does. */
  readonly event: string | null;
}

/**
 * The statuses of the service's document (messaging-service-api.md, "Message status"). Any other
 * word is stored with its event and routed, and changes no message.
 *
 * `failed` ranks below `delivered` and is not final, because a message can reach another of the
 * recipient's devices.
 */
export const messageStatuses = {
  pending: { rank: 10, stage: "open", direction: "outbound", webhook: false, error: false },
  sent: { rank: 20, stage: "open", direction: "outbound", webhook: true, error: false },
  failed: { rank: 30, stage: "settled", direction: "outbound", webhook: true, error: true },
  delivered: { rank: 40, stage: "settled", direction: "outbound", webhook: true, error: false },
  read: { rank: 50, stage: "final", direction: "outbound", webhook: true, error: false },
  received: { rank: 10, stage: "final", direction: "inbound", webhook: false, error: false },
} as const satisfies Readonly<Record<string, MessageStatusRule>>;
export type MessageStatus = keyof typeof messageStatuses;

/**
 * The statuses of an automation run. The document names none, so these words are the relay's own.
 */
export const runStatuses = {
  started: { rank: 10, stage: "open", event: null, error: false },
  completed: { rank: 20, stage: "final", event: "automation.completed", error: false },
  failed: { rank: 20, stage: "final", event: "automation.failed", error: true },
} as const satisfies Readonly<Record<string, RunStatusRule>>;
export type RunStatus = keyof typeof runStatuses;

export const statusWords: readonly string[] = [
  ...new Set([...Object.keys(messageStatuses), ...Object.keys(runStatuses)]),
];

/**
 * The kinds of events that are known: those of the service's document, and that of an automation's
 * request. The document leaves others open.
 */
export const eventKinds: readonly string[] = [
  "message.status",
  ...Object.values(runStatuses).flatMap(({ event }) => event ?? []),
  "automation.request",
];

type Rules<Status extends string> = Readonly<
  Record<Status, StatusRule & { readonly direction?: MessageStatusRule["direction"] }>
>;

export function isStatus<Status extends string>(
  rules: Rules<Status>,
  word: string | null,
): word is Status {
  return word !== null && Object.hasOwn(rules, word);
}

export function statusesOf<Status extends string>(rules: Rules<Status>): Status[] {
  return Object.keys(rules) as Status[];
}

/**
 * Whether `to` replaces the status `from`. Inbound and outbound messages never turn into each
 * other.
 */
export function supersedes<Status extends string>(
  rules: Rules<Status>,
  from: Status | null,
  to: Status,
): boolean {
  if (from === null) return true;
  return rules[from].direction === rules[to].direction && rules[from].rank < rules[to].rank;
}

/** Whether `status` is `target`, or comes after it in the same direction. */
export function reaches<Status extends string>(
  rules: Rules<Status>,
  status: Status,
  target: Status,
): boolean {
  return status === target || supersedes(rules, target, status);
}

export function stageOf<Status extends string>(
  rules: Rules<Status>,
  status: string | null,
): StatusRule["stage"] {
  return isStatus(rules, status) ? rules[status].stage : "open";
}

/** Whether the service may report this status of a message with a `message.status` webhook. */
export function isSentByWebhook(status: string): boolean {
  return !isStatus(messageStatuses, status) || messageStatuses[status].webhook;
}

export function runStatusOf(event: string): RunStatus | null {
  return statusesOf(runStatuses).find((status) => runStatuses[status].event === event) ?? null;
}

/**
 * A test for texts that match any of the patterns. `*` matches any run of characters. Takes at most
 * length of text times length of pattern.
 */
export function compileGlobs(patterns: readonly string[]): (text: string) => boolean {
  if (patterns.includes("*")) return () => true;
  const exact = new Set(patterns.filter((pattern) => !pattern.includes("*")));
  const globs = patterns.filter((pattern) => pattern.includes("*")).map(compileGlob);
  if (globs.length === 0) return (text) => exact.has(text);
  return (text) => exact.has(text) || globs.some((glob) => glob(text));
}

function compileGlob(pattern: string): (text: string) => boolean {
  const pieces = pattern.split("*");
  const head = pieces[0] as string;
  const tail = pieces.at(-1) as string;
  const middle = pieces.slice(1, -1).filter((piece) => piece !== "");
  return (text) => {
    const end = text.length - tail.length;
    if (end < head.length || !text.startsWith(head) || !text.endsWith(tail)) return false;
    // The first match of a piece leaves the most room for the rest, so no backtracking is needed.
    let from = head.length;
    for (const piece of middle) {
      const at = text.indexOf(piece, from);
      if (at === -1 || at + piece.length > end) return false;
      from = at + piece.length;
    }
    return true;
  };
}
