import type { Operation } from "./commit.ts";
import { readSubjectName, type SubjectName } from "./keys.ts";
import { askScore, newAskRecord, type StoredSubject } from "./rows.ts";

/**
 * What a change of a message or run means for those who ask the service: which messages of an account could be read,
 * latest registered first, which are asked about, and which runs are open. For the step that writes the row; null stands
 * for a row that is not there.
 */
export function indexSubject(base: string, name: SubjectName, before: StoredSubject | null, after: StoredSubject | null): Operation[] {
  const { type, account, key } = readSubjectName(name);
  return type === "run" ? indexRun(base, account, key, before, after) : indexMessage(base, account, key, before, after);
}

function indexMessage(
  base: string,
  account: string,
  wamid: string,
  before: StoredSubject | null,
  after: StoredSubject | null,
): Operation[] {
  const operations: Operation[] = [];
  const [was, is] = [placeOfMessage(before), placeOfMessage(after)];
  if (was !== is) {
    if (was !== null) operations.push(["call", "ZREM", `${base}${was}:${account}`, wamid]);
    if (is !== null) operations.push(["call", "ZADD", `${base}${is}:${account}`, String(after?.registeredAt), wamid]);
  }
  if (was === "ti" && is !== "ti") {
    operations.push(["call", "HDEL", `${base}ask:${account}`, wamid]);
    operations.push(["call", "ZREM", `${base}asks:${account}`, wamid]);
    operations.push(["call", "ZREM", `${base}missing:${account}`, wamid]);
  }
  const isRevived = before?.isMissing === true && after?.isMissing === false;
  if (is === "ti" && after !== null && (was !== "ti" || isRevived)) {
    const since = after.sentAt ?? after.registeredAt ?? after.updatedAt;
    operations.push(["call", isRevived ? "HSET" : "HSETNX", `${base}ask:${account}`, wamid, newAskRecord(since)]);
    operations.push(["call", "ZADD", `${base}asks:${account}`, "NX", String(askScore(0, since)), wamid]);
  }
  if (isRevived) operations.push(["call", "ZREM", `${base}missing:${account}`, wamid]);
  return operations;
}

/** Of the messages that are the user's: `ti` with the service's id, `tn` those that cannot be read for want of it. */
export function placeOfMessage(row: StoredSubject | null): "ti" | "tn" | null {
  if (row === null || row.registeredAt === null) return null;
  return row.serviceId === null ? "tn" : "ti";
}

function indexRun(base: string, account: string, runId: string, before: StoredSubject | null, after: StoredSubject | null): Operation[] {
  const [was, is] = [isOpenRun(before), isOpenRun(after)];
  if (was === is) return [];
  const key = `${base}runs:${account}`;
  return is ? [["call", "ZADD", key, String(after?.registeredAt), runId]] : [["call", "ZREM", key, runId]];
}

/** One that a truncated result may be about. */
export function isOpenRun(row: StoredSubject | null): boolean {
  return row !== null && row.registeredAt !== null && (row.status === null || row.status === "started");
}
