/** Whether a webhook URL that chose `kinds` gets events of kind `event`: the kind itself, `*`, or its family as `message.*`. */
export function isSubscribed(kinds: readonly string[], event: string): boolean {
  return kinds.some((kind) => kind === event || kind === "*" || (kind.endsWith(".*") && event.startsWith(kind.slice(0, -1))));
}
