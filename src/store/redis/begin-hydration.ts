import type { HydrationStart } from "../../event/hydration.ts";
import type { ReceivedEvent } from "../../event/received.ts";
import { mostCandidates, mostOpenRuns, targetOf } from "../service-port.ts";
import type { RedisLink } from "./client.ts";
import type { Operation } from "./commit.ts";
import { type Keys, runName } from "./keys.ts";
import { type HydrationRow, hideSeq, readSubjectRow, rowJson, targetMember, writeHydrationRow } from "./rows.ts";

interface Parts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly version: () => string;
}

/** Stands for the seq of the event that is accepted: `beside` in lua/operations.lua puts it in. */
const seq = "@seq@";

/** What is stored beside a truncated event, in the step that accepts it. */
export function createBeginHydration({ keys, link, version }: Parts) {
  const { base } = keys;

  async function references(account: string, runIds: readonly string[]): Promise<[string, string | null][]> {
    if (runIds.length === 0) return [];
    const rows = await link.run((redis) => redis.mget(runIds.map((runId) => keys.of(runName(account, runId)))));
    return runIds.flatMap((runId, index): [string, string | null][] => {
      const row = rows[index];
      return typeof row === "string" ? [[runId, readSubjectRow(rowJson(row)).reference]] : [];
    });
  }

  /** The run that it names, when that is known; else the open ones. */
  async function candidatesOf(account: string, target: string | null): Promise<{ runs: [string, string | null][]; open: number }> {
    const named = target === null ? [] : await references(account, [target]);
    if (named.length > 0) return { runs: named, open: 1 };
    const list = `${base}runs:${account}`;
    const latest = await link.run((redis) => redis.zrevrange(list, 0, mostCandidates - 1));
    const open = await link.run((redis) => redis.zcard(list));
    return { runs: await references(account, latest), open: Math.min(open, mostOpenRuns) };
  }

  return async function beginHydration({ account, envelope, receivedAt }: ReceivedEvent, start: HydrationStart): Promise<Operation[]> {
    const target = targetOf(envelope.data);
    const unsettled = { asked: 0, found: 0, last: null, subject: null };
    if (start.state === "waiting") {
      const row = { ...unsettled, state: start.state, reason: null, target, unknown: null, candidates: null, settledAt: null };
      const operations: Operation[] = [
        put(row),
        ["beside", "SADD", `${base}hydrating`, account],
        ["beside", "ZADD", `${base}hw:${account}`, String(receivedAt), seq],
      ];
      if (target !== null) operations.push(["beside", "ZADD", `${base}ht:${account}`, "0", targetMember(target, seq)]);
      return operations;
    }
    const { runs, open } = envelope.event.startsWith("automation.") ? await candidatesOf(account, target) : { runs: null, open: null };
    const over = { ...unsettled, state: start.state, reason: start.reason, target: null };
    return [put({ ...over, unknown: open, candidates: runs, settledAt: receivedAt })];
  };

  function put(row: HydrationRow): Operation {
    return ["beside", "SET", `${base}h:${seq}`, version() + hideSeq(writeHydrationRow(row))];
  }
}
