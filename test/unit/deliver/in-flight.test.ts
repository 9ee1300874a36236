import { getEventListeners } from "node:events";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Abortable, InFlight } from "../../../src/deliver/destinations/destination.ts";

test("behaves like a Set of attempts that are aborted by their signal or together", () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant("begin" as const), signal: fc.nat(2) }),
    fc.record({ kind: fc.constant("end" as const), which: fc.nat() }),
    fc.record({ kind: fc.constant("end again" as const), which: fc.nat() }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), fc.option(fc.nat(2)), (steps, abortedSignal) => {
      const signals = Array.from({ length: 3 }, () => new AbortController());
      const underWay = new InFlight();
      const model = new Set<Abortable>();
      const ended: Abortable[] = [];
      const aborted: Abortable[] = [];
      const end = (attempt: Abortable): void => {
        underWay.remove(attempt);
        model.delete(attempt);
        ended.push(attempt);
      };
      for (const one of steps) {
        if (one.kind === "begin") {
          const attempt: Abortable = {
            signal: (signals[one.signal] as AbortController).signal,
            index: -1,
            abort() {
              aborted.push(attempt);
              end(attempt);
            },
          };
          underWay.add(attempt);
          model.add(attempt);
        } else {
          const list = one.kind === "end" ? [...model] : ended;
          const attempt = list[one.which % Math.max(1, list.length)];
          if (attempt !== undefined) end(attempt);
        }
      }
      const chosen = abortedSignal === null ? null : (signals[abortedSignal] as AbortController);
      const expected = new Set([...model].filter(({ signal }) => chosen === null || signal === chosen.signal));
      const left = model.size - expected.size;
      if (chosen === null) underWay.abortAll();
      else chosen.abort();
      expect(new Set(aborted)).toEqual(expected);
      expect(aborted).toHaveLength(expected.size);
      underWay.abortAll();
      expect(aborted).toHaveLength(expected.size + left);
      for (const { signal } of signals) expect(getEventListeners(signal, "abort")).toEqual([]);
    }),
  );
});
