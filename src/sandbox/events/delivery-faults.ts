import type { EventFaults } from "../faults.ts";
import type { Random } from "../ids.ts";
import { bodyOf, type SandboxEvent } from "./event-maker.ts";

/** The faults that one delivery will meet. They concern its first try, but for `truncate`, which is for good. */
export interface DeliveryFaults {
  readonly drop: boolean;
  readonly truncate: boolean;
  readonly wrongSignature: boolean;
  /** How the body posted beside the right one is no envelope; null: none is. */
  readonly malformed: Malformation | null;
  /** When the copy is posted, counted from the first try, in milliseconds at speed 1; null: there is none. */
  readonly duplicateAfterMs: number | null;
  readonly reorder: boolean;
  /** Milliseconds of the sandbox's clock, whatever the speed. */
  readonly delayMs: number;
}

export const noFaults: DeliveryFaults = {
  drop: false,
  truncate: false,
  wrongSignature: false,
  malformed: null,
  duplicateAfterMs: null,
  reorder: false,
  delayMs: 0,
};

/** The longest gap between a delivery and its copy: the sandbox's choice. */
const longestGapMs = 1_000;

/**
 * Draws the faults of one delivery after the other. Each fault has a stream of its own, so that its share
 * does not shift whom the others meet: from one seed the n-th delivery always fares the same.
 */
export function createFaultDraw(random: Random): (shares: EventFaults) => DeliveryFaults {
  const streamOf = (fault: string) => random.fork(`fault/${fault}`);
  const [drop, truncate, wrong, reorder, delay] = ["drop", "truncate", "wrong-signature", "reorder", "delay"].map(streamOf) as [
    Random,
    Random,
    Random,
    Random,
    Random,
  ];
  const malformed = streamOf("malformed");
  const malformation = streamOf("malformation");
  const duplicate = streamOf("duplicate");
  const gap = streamOf("gap");
  return (shares) => ({
    drop: drop.chance(shares.drop),
    truncate: truncate.chance(shares.truncate),
    wrongSignature: wrong.chance(shares.wrongSignature),
    malformed: malformed.chance(shares.malformed) ? malformation.pick(malformations) : null,
    duplicateAfterMs: duplicate.chance(shares.duplicate) ? drawGap(gap) : null,
    reorder: reorder.chance(shares.reorder),
    delayMs: delay.chance(shares.delay) ? shares.delayMs : 0,
  });
}

/** Half the copies travel side by side with the first: those defeat a receiver that looks before it stores. */
function drawGap(random: Random): number {
  const later = 1 + random.below(longestGapMs);
  return random.chance(0.5) ? 0 : later;
}

export const malformations = ["broken-json", "no-object", "wrong-id-type", "wrong-data-type", "missing-field", "invalid-utf8"] as const;
type Malformation = (typeof malformations)[number];

/** The bytes of `event`, spoilt. Different events give different bytes. */
export function malformedBody(event: SandboxEvent, malformation: Malformation, random: Random): Buffer {
  const json = (value: unknown) => Buffer.from(JSON.stringify(value), "utf8");
  switch (malformation) {
    case "broken-json":
      // Cut anywhere after the id: never valid, because the last brace is missing.
      return bodyOf(event).subarray(0, 50 + random.below(bodyOf(event).length - 50));
    case "no-object":
      return json([event]);
    case "wrong-id-type":
      return json({ ...event, id: Number.parseInt(event.id.slice(0, 8), 16), trace: event.id });
    case "wrong-data-type":
      return json({ ...event, data: random.pick(["text", 7, true, ["list"]]) });
    case "missing-field": {
      const missing = random.pick(["event", "data"]);
      return json(Object.fromEntries(Object.entries(event).filter(([name]) => name !== missing)));
    }
    case "invalid-utf8": {
      const body = bodyOf(event);
      const inText = body.indexOf('"event":"') + '"event":"'.length;
      return Buffer.concat([body.subarray(0, inText), Buffer.from([0xc3, 0x28]), body.subarray(inText)]);
    }
  }
}
