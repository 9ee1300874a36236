import fc from "fast-check";

/** What processes do at once. `by` of receivers is 0 or 1, of those that plan in the accepting step 2 or 3. */
export type Act =
  | {
      readonly do: "accept";
      /** Processes that get it, each as it comes or with other bytes. */
      readonly by: readonly { readonly process: number; readonly changed: boolean }[];
      readonly about: "message" | "run" | "nothing";
      readonly of: number;
      readonly status: string;
      readonly errorCode: string | null;
      /** Of bodies too large to stand in their rows. */
      readonly isLarge: boolean;
    }
  /** One that came before comes again. */
  | { readonly do: "again"; readonly process: number; readonly drawn: number; readonly changed: boolean }
  | { readonly do: "plan"; readonly process: number }
  /** Somebody plans who ends in the middle: after so many commands of Redis. */
  | { readonly do: "plan and end"; readonly after: number; readonly how: "lost" | "refused" };

/** What is done while nothing else goes on. */
export type Turn =
  | { readonly do: "register"; readonly of: number }
  | { readonly do: "expire" }
  | { readonly do: "settle"; readonly route: string; readonly to: "delivered" | "dead" }
  | { readonly do: "plan all" };

export interface Round {
  readonly acts: readonly Act[];
  readonly turn: Turn;
  /** Time since the round before, in ms. */
  readonly after: number;
}

export const routes = [
  { name: "all" },
  { name: "moves", match: { events: ["message.*"] }, emit: "transitions", firstWait: 500 },
  { name: "mine", match: { tracked: true } },
  { name: "loose", match: { statuses: ["failed", "read"] }, order: "none" },
] as const;

const process = fc.nat(3);

const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 7,
    arbitrary: fc.record({
      do: fc.constant("accept" as const),
      by: fc.array(fc.record({ process, changed: fc.nat(3).map((n) => n === 0) }), { minLength: 1, maxLength: 3 }),
      about: fc.constantFrom(
        "message" as const,
        "message" as const,
        "message" as const,
        "message" as const,
        "run" as const,
        "nothing" as const,
      ),
      of: fc.nat(2),
      status: fc.constantFrom("sent", "delivered", "read", "failed", "odd"),
      errorCode: fc.constantFrom(null, "131026"),
      isLarge: fc.nat(5).map((n) => n === 0),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("again" as const), process, drawn: fc.nat(), changed: fc.boolean() }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("plan" as const), process: fc.integer({ min: 2, max: 3 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constant("plan and end" as const),
      after: fc.integer({ min: 1, max: 6 }),
      how: fc.constantFrom("lost" as const, "refused" as const),
    }),
  },
);

const turn: fc.Arbitrary<Turn> = fc.oneof(
  { weight: 2, arbitrary: fc.record({ do: fc.constant("register" as const), of: fc.nat(2) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("expire" as const) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("settle" as const),
      route: fc.constantFrom(...routes.map(({ name }) => name)),
      to: fc.constantFrom("delivered" as const, "dead" as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("plan all" as const) }) },
);

export const rounds: fc.Arbitrary<Round[]> = fc.array(
  fc.record({ acts: fc.array(act, { minLength: 2, maxLength: 10, size: "max" }), turn, after: fc.constantFrom(0, 1, 400, 30_000, 70_000) }),
  { minLength: 3, maxLength: 8, size: "max" },
);
