import type { Random } from "../random.ts";
import { bodyOf, type SandboxEvent } from "./event-maker.ts";

/** Ways in which a signed body is no envelope. */
export const malformations = ["broken-json", "no-object", "wrong-id-type", "wrong-data-type", "missing-field", "invalid-utf8"] as const;
export type Malformation = (typeof malformations)[number];

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
