import type { Tally } from "../../audit.ts";
import { type RedisLink, runPipeline } from "../client.ts";
import { type Keys, padSeq } from "../keys.ts";
import { readScript } from "../script.ts";
import type { StoredEvent } from "../stored-events.ts";

interface Parts {
  readonly keys: Keys;
  readonly link: RedisLink;
}

const script = readScript("unplanned");

/** Seqs in one answer. */
const atOnce = 1_000;

/** Those that wait to be planned and are greater than `after`, some at a time. */
async function* waitingAfter({ keys, link }: Parts, after: number): AsyncGenerator<readonly number[]> {
  for (let from = after; ; ) {
    const list = [keys.base, String(from), String(atOnce)];
    const found = (await link.run((redis) => script.run(redis, `${keys.base}seq`, list))) as string[];
    const seqs = found.map(Number);
    yield seqs;
    const last = seqs.at(-1) ?? 0;
    if (seqs.length < atOnce || last <= from) return;
    from = last;
  }
}

/** Of these seqs, smallest first, those that wait to be planned. */
export async function waitingAmong(parts: Parts, seqs: readonly number[]): Promise<ReadonlySet<number>> {
  const [first, last] = [seqs[0], seqs.at(-1)];
  const found = new Set<number>();
  if (first === undefined || last === undefined) return found;
  for await (const some of waitingAfter(parts, first - 1)) {
    for (const seq of some) if (seq <= last) found.add(seq);
    if ((some.at(-1) ?? last) >= last) break;
  }
  return found;
}

/** Lists in which only what was planned stands, and which have one of these events that were only accepted; by its seq. */
export async function plannedPlaces({ keys, link }: Parts, rows: readonly StoredEvent[]): Promise<ReadonlyMap<number, readonly string[]>> {
  const asked = rows
    .filter(({ disposition }) => disposition === "accepted")
    .flatMap(({ seq, subject, origin }) => [
      // What the relay learned itself stands among them from the first: it is counted before it is planned.
      ...(subject === null || origin !== "webhook"
        ? []
        : [{ seq, list: `es:${subject}`, member: String(seq), name: "the events of its message" }]),
      { seq, list: "ignored", member: String(seq), name: "those that are ignored" },
      { seq, list: "parked", member: padSeq(seq), name: "those that are parked" },
    ]);
  if (asked.length === 0) return new Map();
  const scores = await runPipeline(link, (commands) => {
    for (const { list, member } of asked) commands.zscore(keys.of(list), member);
  });
  const found = Map.groupBy(
    asked.filter((_, index) => scores[index] !== null),
    ({ seq }) => seq,
  );
  return new Map([...found].map(([seq, places]) => [seq, places.map(({ name }) => name)]));
}

/** What waits to be planned and is not there. `last`: newer ones are not looked at. */
export async function findWaitingStrays(parts: Parts, tally: Tally<string>, last: number): Promise<void> {
  const { keys, link } = parts;
  for await (const some of waitingAfter(parts, 0)) {
    const old = some.filter((seq) => seq <= last);
    if (old.length === 0) return;
    const found = await runPipeline(link, (commands) => {
      for (const seq of old) commands.exists(keys.event(seq));
    });
    const missing = old.filter((_, index) => found[index] !== 1);
    // It may have been planned since, and taken by retention.
    const waiting = await waitingAmong(parts, missing);
    for (const seq of missing)
      if (waiting.has(seq)) tally.offence("planning broken", seq, null, "waits to be planned, and there is no such event");
  }
}
