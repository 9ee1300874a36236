import { type EventFaults, eventFaultsSchema } from "../faults.ts";
import { createRandom, type Random } from "../ids.ts";
import { bodyOf, type SandboxEvent } from "./publisher.ts";

/** What one delivery meets at its first try; `truncate` is for good. */
export type DeliveryFaults = ReturnType<ReturnType<typeof createFaultDraw>>;

const longestGapMs = 1_000;

/** Each fault has a stream of its own, so that its share does not shift whom the others meet. */
export function createFaultDraw(random: Random) {
  const streams = new Map<string, Random>();
  const of = (fault: string): Random => {
    const stream = streams.get(fault) ?? random.fork(`fault/${fault}`);
    streams.set(fault, stream);
    return stream;
  };
  return (shares: EventFaults) => ({
    drop: of("drop").chance(shares.drop),
    truncate: of("truncate").chance(shares.truncate),
    wrongSignature: of("wrong-signature").chance(shares.wrongSignature),
    malformed: of("malformed").chance(shares.malformed)
      ? of("malformation").pick(malformations)
      : null,
    /** From the first try, at speed 1; null: no copy. */
    duplicateAfterMs: of("duplicate").chance(shares.duplicate) ? drawGap(of("gap")) : null,
    reorder: of("reorder").chance(shares.reorder),
    delayMs: of("delay").chance(shares.delay) ? shares.delayMs : 0,
  });
}

export const noFaults: DeliveryFaults = createFaultDraw(createRandom(0))(
  eventFaultsSchema.parse({}),
);

/**
 * Half the copies travel side by side with the first: those defeat a receiver that looks before it
 * stores.
 */
function drawGap(random: Random): number {
  const later = 1 + random.below(longestGapMs);
  return random.chance(0.5) ? 0 : later;
}

export const malformations = [
  "broken-json",
  "no-object",
  "wrong-id-type",
  "wrong-data-type",
  "missing-field",
  "invalid-utf8",
] as const;
type Malformation = (typeof malformations)[number];

export function malformedBody(
  event: SandboxEvent,
  malformation: Malformation,
  random: Random,
): Buffer {
  const json = (value: unknown) => Buffer.from(JSON.stringify(value), "utf8");
  switch (malformation) {
    case "broken-json":
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
      return Buffer.concat([
        body.subarray(0, inText),
        Buffer.from([0xc3, 0x28]),
        body.subarray(inText),
      ]);
    }
  }
}
