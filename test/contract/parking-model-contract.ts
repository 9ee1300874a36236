import fc from "fast-check";
import { expect, test } from "vitest";
import { soakSize } from "../harness/soak.ts";
import type { OpenSubject } from "./contract-store.ts";
import { commandsOf, delivered, type Real, settle } from "./contract-tools.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";

const parkFor = 2;
const routes = [
  { name: "ours", match: { tracked: true } },
  { name: "sent", match: { statuses: ["sent"] } },
];

interface ModelEvent {
  readonly seq: number;
  readonly message: number;
  readonly status: string;
  readonly until: number;
  /** What the route that asks for tracked messages made of it. */
  ours: "park" | "deliver" | "skip";
}

/** Parking as a list that anybody can check by eye. */
interface Model {
  now: number;
  readonly registered: Set<number>;
  readonly events: ModelEvent[];
}

const dispositionOf = ({ ours, status }: ModelEvent) =>
  status === "sent" || ours === "deliver" ? "routed" : ours === "park" ? "parked" : "ignored";

async function check(model: Model, { store }: Real): Promise<void> {
  const owed = new Set(
    (await store.read.listDeliveries({ limit: 1_000 })).map(
      ({ event, route }) => `${event} ${route}`,
    ),
  );
  await Promise.all(
    model.events.map(async (event) => {
      expect(await store.event(event.seq)).toMatchObject({
        disposition: dispositionOf(event),
        parkedUntil: event.ours === "park" ? event.until : null,
        verdicts: [
          event.ours === "skip" ? ["ours", "skip", "untracked"] : ["ours", event.ours],
          event.status === "sent" ? ["sent", "deliver"] : ["sent", "skip", "status"],
        ],
      });
      // Registered before or in time: owed exactly once. Else not at all.
      expect(owed.has(`${event.seq} ours`)).toBe(event.ours === "deliver");
      // The other route never waited for anything.
      expect(owed.has(`${event.seq} sent`)).toBe(event.status === "sent");
    }),
  );
}

const { command, passed, reopened } = commandsOf(check);

function taken(model: Model, seq: number, message: number, status: string): void {
  const ours = model.registered.has(message) ? "deliver" : "park";
  model.events.push({ seq, message, status, until: model.now + parkFor, ours });
}

function release(model: Model, message: number): void {
  model.registered.add(message);
  for (const event of model.events)
    if (event.message === message && event.ours === "park") event.ours = "deliver";
}

/** Of those whose time is up, the ones that wait longest go first. */
function end(model: Model, limit: number): number {
  const over = model.events.filter(({ ours, until }) => ours === "park" && until <= model.now);
  const ended = over.sort((a, b) => a.until - b.until || a.seq - b.seq).slice(0, limit);
  for (const event of ended) event.ours = "skip";
  return ended.length;
}

const messages = 8;
const message = fc.nat(messages - 1);
const status = fc.constantFrom("sent", "delivered", "read", "sent again");
const limit = fc.integer({ min: 1, max: 3 });

const accepted = fc.tuple(message, status).map(([about, word]) =>
  command(`accept(${about}, ${word})`, async (model, { store }) => {
    const { seq } = await store.accept(
      anEvent({ wamid: `w${about}`, status: word, receivedAt: model.now }),
    );
    taken(model, seq, about, word);
  }),
);

const registered = message.map((about) =>
  command(`register(${about})`, async (model, { store }) => {
    const { created } = await store.register([{ account: "main", wamid: `w${about}` }], model.now);
    expect(created).toBe(model.registered.has(about) ? 0 : 1);
    release(model, about);
  }),
);

const ended = limit.map((most) =>
  command(`expire(${most})`, async (model, { store }) => {
    expect(await store.expireParked(model.now, most)).toBe(end(model, most));
  }),
);

type Raced = "accept" | "register" | "expire";

/** What each step gives when they happen in this order. */
function inOrder(
  model: Model,
  order: readonly Raced[],
  about: number,
  most: number,
  seq: number,
): Map<Raced, number> {
  const given = new Map<Raced, number>();
  for (const step of order) {
    if (step === "accept") taken(model, seq, about, "read");
    else if (step === "register") {
      given.set(step, model.registered.has(about) ? 0 : 1);
      release(model, about);
    } else given.set(step, end(model, most));
  }
  return given;
}

/**
 * Handed in in one turn: whichever comes first decides, and which that is the engine may choose.
 */
const raced = fc
  .tuple(
    fc.shuffledSubarray(["accept", "register", "expire"] as const, { minLength: 2 }),
    message,
    limit,
  )
  .map(([order, about, most]) =>
    command(`at once: ${order.join(", ")}(${about}, ${most})`, async (model, { store }) => {
      const seqs: number[] = [];
      const given = new Map<Raced, number>();
      const run: Record<Raced, () => Promise<unknown>> = {
        accept: async () =>
          seqs.push(
            (
              await store.accept(
                anEvent({ wamid: `w${about}`, status: "read", receivedAt: model.now }),
              )
            ).seq,
          ),
        register: async () =>
          given.set(
            "register",
            (await store.register([{ account: "main", wamid: `w${about}` }], model.now)).created,
          ),
        expire: async () => given.set("expire", await store.expireParked(model.now, most)),
      };
      await Promise.all(order.map((step) => run[step]()));
      const [seq = 0] = seqs;
      const known = [...model.events.map((event) => event.seq), ...seqs];
      const found = new Map(
        await Promise.all(
          known.map(async (each) => [each, (await store.event(each))?.verdicts[0]?.[1]] as const),
        ),
      );
      const ends = permutations(order).map((one) => {
        const after = copy(model);
        return { after, given: inOrder(after, one, about, most, seq) };
      });
      const seen = ends.find(
        (one) =>
          one.after.events.every((event) => found.get(event.seq) === event.ours) &&
          [...given].every(([step, count]) => one.given.get(step) === count),
      );
      expect(
        seen,
        `${JSON.stringify([...found])} and ${JSON.stringify([...given])} come of no order`,
      ).toBeDefined();
      if (seen === undefined) return;
      model.registered.clear();
      for (const each of seen.after.registered) model.registered.add(each);
      model.events.splice(0, model.events.length, ...seen.after.events);
    }),
  );

const copy = (model: Model): Model => ({
  now: model.now,
  registered: new Set(model.registered),
  events: model.events.map((event) => ({ ...event })),
});

function permutations<T>(list: readonly T[]): T[][] {
  if (list.length <= 1) return [[...list]];
  return list.flatMap((first, index) =>
    permutations(list.filter((_, other) => other !== index)).map((rest) => [first, ...rest]),
  );
}

/**
 * All that is owed goes out, a message's events one after the other in the order in which they were
 * accepted.
 */
async function drain(model: Model, { store }: Real): Promise<void> {
  for (let about = 0; about < messages; about += 1) {
    const owed = model.events
      .filter((event) => event.message === about && event.ours === "deliver")
      .map(({ seq }) => seq);
    const order: number[] = [];
    const first =
      (await store.due("ours", model.now, 1_000)).find((seq) => owed.includes(seq)) ?? null;
    for (
      let next = first;
      next !== null;
      next = await settle(store, "ours", next, delivered, { at: model.now })
    )
      order.push(next);
    expect(order).toEqual(owed);
  }
}

export function parkingModelContract(open: OpenSubject): void {
  test("parking equals a plain list for any order of registration, expiry and event", async () => {
    const commands = fc.commands(
      [accepted, accepted, accepted, accepted, registered, ended, raced, passed, reopened],
      {
        maxCommands: 40,
        size: "max",
      },
    );
    await fc.assert(
      fc.asyncProperty(commands, async (sequence) => {
        const subject = await open(rulesFor(routes, { parkFor }));
        const model: Model = { now: start, registered: new Set(), events: [] };
        const real: Real = { subject, store: subject.store };
        try {
          await fc.asyncModelRun(() => ({ model, real }), sequence);
          await drain(model, real);
        } finally {
          await subject.end();
        }
      }),
      { numRuns: soakSize(15, 40) },
    );
  });
}
