import fc from "fast-check";

export const routes = [
  { name: "most", match: { sources: ["main"] } },
  { name: "failures", match: { statuses: ["failed"] } },
  { name: "mine", match: { tracked: true } },
  { name: "loose", match: { events: ["message.*"], sources: ["main"] }, order: "none" },
  {
    name: "moves",
    match: { events: ["message.*"], sources: ["main"] },
    emit: "transitions",
    firstWait: 500,
  },
  { name: "held", match: { events: ["message.*"], accounts: ["other"] }, truncated: "hold" },
] as const;

const step = <const Do extends string, Parts extends object>(
  name: Do,
  parts: { [Key in keyof Parts]: fc.Arbitrary<Parts[Key]> },
) =>
  fc.record({ do: fc.constant(name), ...parts }) as unknown as fc.Arbitrary<
    { readonly do: Do } & Readonly<Parts>
  >;
/** True for one of so many. */
const rarely = (of: number) => fc.nat(of - 1).map((n) => n === 0);
/** Which of a few. */
const of = fc.nat(2);
const account = fc.constantFrom("main", "main", "other");
const source = fc.constantFrom("main", "second");

/** One step of a run, of plain numbers and words so that a failing run can be read. */
const anyStep = fc.oneof(
  {
    weight: 8,
    arbitrary: step("accept", {
      about: fc.constantFrom("message", "message", "message", "run", "nothing", "truncated"),
      of,
      account,
      source,
      status: fc.constantFrom("sent", "delivered", "read", "failed", "odd"),
      errorCode: fc.constantFrom(null, "131026"),
      // Comes again under an id of before, with the same bytes or other ones.
      again: fc.constantFrom("no", "no", "no", "same", "other"),
      proxied: rarely(10),
      drawn: fc.nat(),
    }),
  },
  {
    weight: 6,
    arbitrary: step("attempt", {
      drawn: fc.nat(),
      to: fc.constantFrom("delivered", "delivered", "dead", "waiting"),
      spares: fc.boolean(),
      stop: rarely(6),
      answer: fc.constantFrom("status", "error", "nothing"),
    }),
  },
  {
    weight: 3,
    arbitrary: step("register", { of, account, reference: fc.option(fc.nat(1)), id: fc.boolean() }),
  },
  { weight: 1, arbitrary: step("quarantine", { source }) },
  { weight: 1, arbitrary: step("expire", {}) },
  { weight: 2, arbitrary: step("retry", { drawn: fc.nat() }) },
  { weight: 2, arbitrary: step("send", { what: fc.constantFrom("message", "run"), of }) },
  {
    weight: 1,
    arbitrary: step("replay", {
      states: fc.constantFrom<("delivered" | "dead")[]>(
        ["delivered"],
        ["dead"],
        ["delivered", "dead"],
      ),
      route: fc.constantFrom(undefined, "most", "loose"),
    }),
  },
  {
    weight: 2,
    arbitrary: step("plan again", { disposition: fc.constantFrom("filtered", "ignored") }),
  },
  // The settings are changed: with the route `late`, or without it.
  { weight: 2, arbitrary: step("reload", { late: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: step("resume", { route: fc.constantFrom(...routes.map(({ name }) => name)) }),
  },
);

export type Step = typeof anyStep extends fc.Arbitrary<infer T> ? T : never;
/** Each step with the time since the one before. */
export type Timed = Step & { readonly after: number };

export const steps: fc.Arbitrary<Timed[]> = fc.array(
  anyStep.chain((one) => fc.constantFrom(0, 1, 400, 30_000).map((after) => ({ ...one, after }))),
  { minLength: 20, maxLength: 80, size: "max" },
);
