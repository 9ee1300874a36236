import fc from "fast-check";
import { expect, test } from "vitest";
import {
  conflictError,
  joinFacts,
  type MessageFacts,
  type MessageRegistration,
} from "../../../src/track/registration.ts";

const empty: MessageFacts = {
  id: null,
  reference: null,
  conversationId: null,
  metadata: null,
  sentAt: null,
};

function joined(row: MessageFacts, told: Partial<MessageRegistration>) {
  const result = joinFacts(row, { account: "main", wamid: "w", ...told });
  if ("conflicts" in result) return { ...result, row };
  return { isNew: result.isNew, row: result.facts };
}

const comparable = ({ metadata, ...row }: MessageFacts) => ({
  ...row,
  metadata: metadata === null ? null : (JSON.parse(metadata) as unknown),
});

const json = fc.jsonValue({ maxDepth: 2 });
const registration = fc.record(
  {
    id: fc.constantFrom("m1", "m2"),
    reference: fc.constantFrom("r1", "r2"),
    conversationId: fc.constantFrom("c1", "c2"),
    metadata: fc.dictionary(
      fc.constantFrom("a", "b", "__proto__", "toString"),
      fc.oneof(json, fc.constantFrom(-0, 0)),
      {
        noNullPrototype: true,
      },
    ),
    sentAt: fc.integer({ min: 1, max: 9 }),
  },
  { requiredKeys: [] },
);

test("a second time changes nothing and is no conflict, whatever was told", () => {
  fc.assert(
    fc.property(fc.array(registration, { minLength: 1, maxLength: 4 }), (told) => {
      let row = empty;
      for (const one of told) row = joined(row, one).row;
      for (const one of told) {
        const again = joined(row, one);
        // What was refused is refused again.
        if (!("conflicts" in again)) expect(again.isNew).toBe(false);
        expect(comparable(again.row)).toEqual(comparable(row));
      }
    }),
    { numRuns: 500 },
  );
});

test("parts of one truth come together the same in any order", () => {
  fc.assert(
    fc.property(
      registration,
      fc.array(fc.tuple(fc.nat(31), fc.nat(15)), { maxLength: 6 }),
      (truth, parts) => {
        const part = ([which, keys]: readonly [number, number]): Partial<MessageRegistration> => {
          const names = ["id", "reference", "conversationId", "metadata", "sentAt"] as const;
          const chosen = Object.fromEntries(
            names
              .filter((name, bit) => which & (1 << bit) && name in truth)
              .map((name) => [name, truth[name]]),
          );
          if (chosen["metadata"] === undefined) return chosen;
          const metadata = Object.fromEntries(
            Object.entries(truth.metadata ?? {}).filter((_, bit) => keys & (1 << bit)),
          );
          return { ...chosen, metadata };
        };
        const told = [...parts.map(part), truth];
        const all = (order: readonly Partial<MessageRegistration>[]) => {
          let row = empty;
          for (const one of order) {
            const next = joined(row, one);
            expect(next).not.toHaveProperty("conflicts");
            row = next.row;
          }
          return comparable(row);
        };
        expect(all(told.toReversed())).toEqual(all(told));
      },
    ),
    { numRuns: 500 },
  );
});

test("a difference names both; the time it was sent is none, and the earliest counts", () => {
  const { row } = joined(empty, { id: "m1", metadata: { team: { name: "a" }, n: 1 }, sentAt: 5 });
  const result = joined(row, {
    id: "m2",
    metadata: { n: 2, team: { name: "a" }, more: true },
    sentAt: 3,
  });
  expect(result).toMatchObject({
    conflicts: { id: { stored: "m1", given: "m2" }, "metadata.n": { stored: 1, given: 2 } },
  });
  expect(joined(row, { sentAt: 3 })).toMatchObject({ isNew: true, row: { sentAt: 3 } });
  expect(joined(row, { sentAt: 7 })).toMatchObject({ isNew: false, row: { sentAt: 5 } });
});

test("the error is short whatever the values are, and says which of a list it is", () => {
  const conflicts = { "metadata.note": { stored: "x".repeat(5_000), given: { deep: [1] } } };
  const { message, details, code } = conflictError(conflicts, 16);
  expect(code).toBe("conflict");
  expect(message.length).toBeLessThan(300);
  expect(message).toMatch(
    /^this wamid is registered with another metadata\.note; it is number 17 of the list/,
  );
  expect(details).toEqual({ ...conflicts, index: 16 });
});
