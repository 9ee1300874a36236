import fc from "fast-check";
import type { BackfillFilter, ReplayFilter } from "../../src/store/port.ts";

/** One step of a run, of plain numbers and words so that a failing run can be read. */
export type Step =
  | {
      readonly do: "accept";
      readonly about: "message" | "run" | "nothing" | "truncated";
      /** Which of a few. */
      readonly of: number;
      readonly account: string;
      readonly source: string;
      readonly status: string;
      readonly errorCode: string | null;
      /** Comes again under an id of before, with the same bytes or other ones. */
      readonly again: "no" | "same" | "other";
      readonly proxied: boolean;
      readonly drawn: number;
    }
  | { readonly do: "quarantine"; readonly source: string }
  | { readonly do: "register"; readonly of: number; readonly account: string; readonly reference: number | null; readonly id: boolean }
  | { readonly do: "expire" }
  | {
      readonly do: "attempt";
      readonly drawn: number;
      readonly to: "delivered" | "dead" | "waiting";
      readonly spares: boolean;
      readonly stop: boolean;
      readonly answer: "status" | "error" | "nothing";
    }
  | { readonly do: "retry"; readonly drawn: number }
  | { readonly do: "resume"; readonly route: string }
  | { readonly do: "send"; readonly what: "message" | "run"; readonly of: number }
  | { readonly do: "replay"; readonly states: ReplayFilter["states"]; readonly route: string | undefined }
  | { readonly do: "plan again"; readonly disposition: BackfillFilter["disposition"] }
  /** The settings are changed: with the route `late`, or without it. */
  | { readonly do: "reload"; readonly late: boolean };

/** Each step with the time since the one before. */
export type Timed = Step & { readonly after: number };

export const routes = [
  { name: "most", match: { sources: ["main"] } },
  { name: "failures", match: { statuses: ["failed"] } },
  { name: "mine", match: { tracked: true } },
  { name: "loose", match: { events: ["message.*"], sources: ["main"] }, order: "none" },
  { name: "moves", match: { events: ["message.*"], sources: ["main"] }, emit: "transitions", firstWait: 500 },
  { name: "held", match: { events: ["message.*"], accounts: ["other"] }, truncated: "hold" },
] as const;

const account = fc.constantFrom("main", "main", "other");
const source = fc.constantFrom("main", "second");

const accepted = fc.record({
  do: fc.constant("accept" as const),
  about: fc.constantFrom(
    "message" as const,
    "message" as const,
    "message" as const,
    "run" as const,
    "nothing" as const,
    "truncated" as const,
  ),
  of: fc.nat(2),
  account,
  source,
  status: fc.constantFrom("sent", "delivered", "read", "failed", "odd"),
  errorCode: fc.constantFrom(null, "131026"),
  again: fc.constantFrom("no" as const, "no" as const, "no" as const, "same" as const, "other" as const),
  proxied: fc.nat(9).map((n) => n === 0),
  drawn: fc.nat(),
});

export const steps: fc.Arbitrary<Timed[]> = fc.array(
  fc
    .oneof(
      { weight: 8, arbitrary: accepted },
      {
        weight: 6,
        arbitrary: fc.record({
          do: fc.constant("attempt" as const),
          drawn: fc.nat(),
          to: fc.constantFrom("delivered" as const, "delivered" as const, "dead" as const, "waiting" as const),
          spares: fc.boolean(),
          stop: fc.nat(5).map((n) => n === 0),
          answer: fc.constantFrom("status" as const, "error" as const, "nothing" as const),
        }),
      },
      {
        weight: 3,
        arbitrary: fc.record({
          do: fc.constant("register" as const),
          of: fc.nat(2),
          account,
          reference: fc.option(fc.nat(1)),
          id: fc.boolean(),
        }),
      },
      { weight: 1, arbitrary: fc.record({ do: fc.constant("quarantine" as const), source }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant("expire" as const) }) },
      { weight: 2, arbitrary: fc.record({ do: fc.constant("retry" as const), drawn: fc.nat() }) },
      {
        weight: 2,
        arbitrary: fc.record({
          do: fc.constant("send" as const),
          what: fc.constantFrom("message" as const, "run" as const),
          of: fc.nat(2),
        }),
      },
      {
        weight: 1,
        arbitrary: fc.record({
          do: fc.constant("replay" as const),
          states: fc.constantFrom(["delivered"] as const, ["dead"] as const, ["delivered", "dead"] as const),
          route: fc.constantFrom(undefined, "most", "loose"),
        }),
      },
      {
        weight: 2,
        arbitrary: fc.record({
          do: fc.constant("plan again" as const),
          disposition: fc.constantFrom("filtered" as const, "ignored" as const),
        }),
      },
      { weight: 2, arbitrary: fc.record({ do: fc.constant("reload" as const), late: fc.boolean() }) },
      {
        weight: 1,
        arbitrary: fc.record({ do: fc.constant("resume" as const), route: fc.constantFrom(...routes.map(({ name }) => name)) }),
      },
    )
    .chain((step) => fc.constantFrom(0, 1, 400, 30_000).map((after) => ({ ...step, after }))),
  { minLength: 20, maxLength: 80, size: "max" },
);
