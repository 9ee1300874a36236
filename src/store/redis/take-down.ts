import type { ReceivedEvent } from "../../event/received.ts";
import type { AcceptOutcome } from "../rules.ts";
import type { RedisLink } from "./client.ts";
import { inlineBytes, rowWithBody, writeEventRow } from "./event-rows.ts";
import { createGroupCommit } from "./group-commit.ts";
import { arrivedRow, idKey, proofName } from "./judge-event.ts";
import { keysOf } from "./keys.ts";
import { type Argument, readScript } from "./script.ts";

/** An event as lua/take-down.lua takes it. */
interface Step {
  readonly event: ReceivedEvent;
  readonly id: string;
  readonly row: Argument;
}

export interface TakeDownParts {
  readonly prefix: string;
  readonly link: RedisLink;
  readonly version: () => string;
  readonly committed: (tookMs: number, writes: number) => void;
  readonly arriving?: (() => boolean) | undefined;
  /** An event waits to be planned, and nothing did before it. */
  readonly waiting: () => void;
  /** Events were stored, the last of them under this seq. */
  readonly stored: (seq: number) => void;
}

const script = readScript("take-down", ["events"]);

/** Accepts events and no more: deduped and stored, to be tracked and planned in their turn (planning.ts). */
export function createTakeDown({ prefix, link, version, committed, arriving, waiting, stored }: TakeDownParts) {
  const { base } = keysOf(prefix);
  const commit = createGroupCommit<Step, AcceptOutcome>({
    write: (steps) => writeBatch(base, steps),
    workOf: () => 1,
    bytesOf: ({ event }) => event.body.length,
    async send(list, steps) {
      const answer = (await link.run((redis) => script.run(redis, `${base}seq`, list))) as Answer;
      if (answer[1] === 1) waiting();
      const duplicates = (answer.length - 2) / 3;
      stored(answer[0] + steps.length - duplicates);
      return outcomesOf(answer, steps.length);
    },
    committed,
    arriving,
  });

  return {
    takeDown(event: ReceivedEvent): Promise<AcceptOutcome> {
      const isInline = event.body.length <= inlineBytes;
      const row = rowWithBody(version() + writeEventRow(arrivedRow(event)), isInline ? event.body : null);
      return commit.run({ event, id: idKey(event), row });
    },
    idle: commit.idle,
  };
}

/** `[seq before the first, 1: nothing waited before them, …(place from 1, seq, 1: other bytes) of each duplicate]`. */
type Answer = readonly [before: number, isFirst: number, ...duplicates: (number | string)[]];

function outcomesOf([before, , ...duplicates]: Answer, count: number): AcceptOutcome[] {
  const outcomes: AcceptOutcome[] = [];
  let seq = before;
  let next = 0;
  for (let place = 1; place <= count; place++) {
    if (duplicates[next] === place) {
      outcomes.push({ result: "duplicate", seq: Number(duplicates[next + 1]), conflict: duplicates[next + 2] === 1 });
      next += 3;
    } else {
      seq += 1;
      outcomes.push({ result: "accepted", seq, disposition: "accepted", due: [] });
    }
  }
  return outcomes;
}

interface Proof {
  readonly name: string;
  count: number;
  first: number;
  last: number;
}

/** What events have in common is sent once: an argument costs Redis a third of a write of its own. */
function writeBatch(base: string, steps: readonly Step[]): Argument[] {
  const accounts = new Set<string>();
  const proofs: Proof[] = [];
  const apart: Argument[] = [];
  const learned: Argument[] = [];
  const list: Argument[] = [base, String(steps.length)];
  let proof: Proof | undefined;
  for (const [index, { event, id, row }] of steps.entries()) {
    const { account, receivedAt, body, origin } = event;
    list.push(id, row);
    accounts.add(account);
    const name = proofName(event);
    if (proof?.name !== name) {
      proof = { name, count: 0, first: receivedAt, last: receivedAt };
      proofs.push(proof);
    }
    proof.count += 1;
    proof.first = Math.min(proof.first, receivedAt);
    proof.last = Math.max(proof.last, receivedAt);
    if (body.length > inlineBytes) apart.push(String(index + 1), body);
    // What was learned by asking is counted as such at once, by whoever asked.
    if (origin !== "webhook") learned.push(String(index + 1), account, arrivedRow(event).subject ?? "");
  }
  list.push(String(accounts.size), ...accounts, String(proofs.length));
  for (const { name, count, first, last } of proofs) list.push(name, String(count), String(first), String(last));
  list.push(String(apart.length / 2), ...apart, String(learned.length / 3), ...learned);
  return list;
}
