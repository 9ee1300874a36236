import type { Post } from "../../sandbox/traffic/post.ts";
import { answeredStatuses } from "./relay-settings.ts";

/** What the posts of a run must come to, from the posts alone. */
export interface Expected {
  /** Distinct event ids. */
  readonly events: number;
  readonly quarantined: number;
  readonly unauthorized: number;
  /** Events on the route of delivered and read messages. */
  readonly answered: number;
  /** Failures told once per tracked message, as a range. */
  readonly failures: { readonly least: number; readonly most: number };
}

/** Counts what `posts` must come to, whatever the order in which they arrive. */
export function expectedOf(posts: readonly Post[]): Expected {
  const statuses = new Map<string, { wamid: string | null; ours: boolean; status: unknown }>();
  let quarantined = 0;
  let unauthorized = 0;
  for (const { expected, subject, body } of posts) {
    if (expected.of === "post") {
      if (expected.answer === "quarantined") quarantined += 1;
      else unauthorized += 1;
    } else if (!statuses.has(expected.id)) {
      const { data } = JSON.parse(body.toString("utf8")) as { data: { status?: unknown } };
      statuses.set(expected.id, { wamid: subject.wamid, ours: subject.ours, status: data.status });
    }
  }
  const failed = new Set<string>();
  const delivered = new Set<string>();
  let answered = 0;
  for (const { wamid, ours, status } of statuses.values()) {
    if ((answeredStatuses as readonly unknown[]).includes(status)) answered += 1;
    if (wamid === null || !ours) continue;
    if (status === "failed") failed.add(wamid);
    if (status === "delivered") delivered.add(wamid);
  }
  const least = [...failed].filter((wamid) => !delivered.has(wamid)).length;
  return { events: statuses.size, quarantined, unauthorized, answered, failures: { least, most: failed.size } };
}
