import { createHmac } from "node:crypto";
import type { Purged } from "../../src/store/work/retention.ts";
import { account, eventAt, path, secret, signatureHeader, wamidsOf } from "../events.ts";
import { latencyOf } from "../load/measure.ts";
import { round } from "../report.ts";
import { type FileBytes, openStoreFile, parkForMs, type StoreFile } from "./store-file.ts";

/**
 * Events of one commit while the flood comes in: what the relay gathers at some thousands a second.
 */
const perCommit = 32;
const hour = 3_600_000;
const keep = {
  events: 720 * hour,
  ignored: 24 * hour,
  deliveries: 720 * hour,
  messages: 4320 * hour,
  history: 9600 * hour,
};
/** As large a step as the relay asks for (src/app/upkeep.ts). */
const stepRows = 2_000;

export interface Steps {
  readonly perSecond: number;
  readonly steps: number;
  /** Milliseconds of one step, its commit included: meanwhile nothing else can be stored. */
  readonly stepMs: { readonly p50: number; readonly p99: number; readonly max: number };
}

export interface StoreFlood {
  readonly events: number;
  readonly bodyBytes: number;
  readonly accepted: Steps;
  readonly expired: Steps;
  readonly purged: Steps;
  /** Pages of the file that went back to the disk, by the second. */
  readonly givenBack: Steps;
  readonly released: Steps;
  /** Bytes of the file for each event of the flood: all of it, and what holds rows. */
  readonly bytesPerEvent: Readonly<
    Record<
      "parked" | "ignored" | "afterRetention" | "secondFlood",
      { readonly file: number; readonly used: number }
    >
  >;
}

/**
 * A campaign of messages nobody registered, from first event to nothing left, on a clock of its
 * own; then the same again.
 */
export async function floodStore(events: number, say: (line: string) => void): Promise<StoreFlood> {
  await using file = openStoreFile();
  const start = Date.now();
  const empty = file.bytes();
  const perEvent = (bytes: FileBytes) => ({
    file: round((bytes.whole - empty.whole) / events),
    used: round((bytes.whole - bytes.free - empty.whole + empty.free) / events),
  });

  const accepted = await accept(file, 1, events, start, say);
  const parked = perEvent(file.bytes());
  say(`parked: ${JSON.stringify(parked)} bytes an event; ${describe(accepted)}`);

  const released = await release(Math.ceil(events / 20), start, say);

  const expired = createMeter();
  while (
    (await expired.step(
      async () => (await file.store.expireParked(start + parkForMs + 1, stepRows)).concluded,
      (ended) => ended,
    )) > 0
  );
  const ignored = perEvent(file.bytes());
  say(`ignored: ${JSON.stringify(ignored)}; expiring ${describe(expired.read())}`);

  const [purged, givenBack] = await purge(file, start + 25 * hour);
  const afterRetention = perEvent(file.bytes());
  say(
    `after retention: ${JSON.stringify(afterRetention)}; purging ${describe(purged)}; pages given back: ${describe(givenBack)}`,
  );

  await accept(file, 2, events, start + 26 * hour, say);
  const secondFlood = perEvent(file.bytes());
  say(`the same again: ${JSON.stringify(secondFlood)}`);
  return {
    events,
    bodyBytes: eventAt(0, 0).body.length,
    accepted,
    expired: expired.read(),
    purged,
    givenBack,
    released,
    bytesPerEvent: { parked, ignored, afterRetention, secondFlood },
  };
}

async function purge(
  { store, bytes }: StoreFile,
  now: number,
): Promise<[purged: Steps, givenBack: Steps]> {
  const rows = createMeter();
  const pages = createMeter();
  const pageBytes = 4096;
  const before = bytes().whole;
  for (let deleting = true; ; ) {
    const purged: Purged = await (deleting ? rows : pages).step(
      () => store.purge(now, keep, stepRows),
      (step) => step.events + step.messages,
    );
    deleting = purged.events + purged.messages > 0;
    if (purged.done) return [rows.read(), pages.read((before - bytes().whole) / pageBytes)];
  }
}

async function accept(
  { store, prove }: StoreFile,
  run: number,
  events: number,
  at: number,
  say: (line: string) => void,
): Promise<Steps> {
  const meter = createMeter();
  for (let from = 0; from < events; from += perCommit) {
    const group = Array.from({ length: Math.min(perCommit, events - from) }, (_, n) => {
      const { body } = eventAt(run, from + n);
      const signature = createHmac("sha256", secret).update(body).digest("hex");
      const proved = prove(
        {
          method: "POST",
          url: path,
          headers: { [signatureHeader]: `sha256=${signature}` },
          body,
          nowMs: at,
        },
        0,
      );
      if (proved.kind !== "event") throw new Error(`not an event: ${proved.kind}`);
      return proved.event;
    });
    const outcomes = await meter.step(
      () => Promise.all(group.map((event) => store.accept(event))),
      () => group.length,
    );
    for (const outcome of outcomes) {
      if (outcome.result !== "accepted" || outcome.disposition !== "parked")
        throw new Error(`not parked: ${JSON.stringify(outcome)}`);
    }
    if (from % (perCommit * 5000) === 0 && from > 0) say(`${from} accepted`);
  }
  return meter.read();
}

/** As upkeep has it. */
const releaseLimit = 2_000;

/**
 * Events parked in a file of their own, and then registered a hundred messages to a commit, as a
 * list of them is.
 */
async function release(events: number, at: number, say: (line: string) => void): Promise<Steps> {
  const run = 3;
  await using file = openStoreFile();
  await accept(file, run, events, at, say);
  const wamids = wamidsOf({ run, count: events });
  const meter = createMeter();
  let due = 0;
  for (let from = 0; from < wamids.length; from += 100) {
    const messages = wamids.slice(from, from + 100).map((wamid) => ({ account, wamid }));
    const registered = await meter.step(
      () => file.store.register(messages, at + 1),
      () => 0,
    );
    due += registered.due.length;
  }
  // A registration releases a bounded number of events; upkeep releases the others.
  for (let released = 1; released > 0; ) {
    const more = await meter.step(
      () => file.store.releaseParked(at + 1, releaseLimit),
      () => 0,
    );
    released = more.released;
    due += more.due.length;
  }
  // The first of each message goes out; the others are held behind it.
  if (due !== wamids.length)
    throw new Error(`${wamids.length} messages were registered and ${due} deliveries came due`);
  const steps = meter.read(events);
  say(`released: ${describe(steps)}`);
  return steps;
}

function createMeter() {
  const times: number[] = [];
  let rows = 0;
  let tookMs = 0;
  return {
    async step<T>(run: () => Promise<T>, count: (result: T) => number): Promise<T> {
      const before = performance.now();
      const result = await run();
      const took = performance.now() - before;
      times.push(took);
      tookMs += took;
      rows += count(result);
      return result;
    },
    /** `total`: where a step does not tell how much it did. */
    read(total = rows): Steps {
      const { p50, p99, max } = latencyOf(Float64Array.from(times));
      return {
        perSecond: round((total / tookMs) * 1000),
        steps: times.length,
        stepMs: { p50: round(p50), p99: round(p99), max: round(max) },
      };
    },
  };
}

function describe({ perSecond, steps, stepMs }: Steps): string {
  return `${perSecond}/s in ${steps} steps of p50 ${stepMs.p50}, p99 ${stepMs.p99}, at most ${stepMs.max} ms`;
}
