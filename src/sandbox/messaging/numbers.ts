import type { Random } from "../random.ts";
import { type LifeStep, messageLife } from "../statuses.ts";

/** How messages to a phone fare. */
export interface FixedOutcome {
  /** The statuses they take, in order. Not given: most are read. */
  readonly steps?: readonly LifeStep[];
  /** So many times slower than others. */
  readonly slowness?: number;
  /** Each status is reported so many times. */
  readonly reports?: number;
  /** The provider does not accept them, and says why. */
  readonly rejection?: { readonly reason: string; readonly isTemporary: boolean };
}

const sent: LifeStep = { status: "sent" };
const delivered: LifeStep = { status: "delivered" };
const read: LifeStep = { status: "read" };
const failed = (errorCode: string | number): LifeStep => ({ status: "failed", errorCode });

/** Numbers with a fixed outcome, by their last four digits (docs/contributing/sandbox.md). */
export const fixedOutcomes: Readonly<Record<string, FixedOutcome>> = {
  // No account on the network.
  "0000": { steps: [failed(131026)] },
  // Read receipts off.
  "0001": { steps: [sent, delivered] },
  // Stays pending.
  "0002": { steps: [] },
  // The phone is switched off.
  "0003": { steps: [sent] },
  // Fails, and another device of the same person gets it afterwards.
  "0004": { steps: [sent, failed(131047), delivered] },
  "0005": { rejection: { reason: "la cuenta del proveedor no tiene un método de pago válido (131042).", isTemporary: false } },
  "0006": {
    rejection: { reason: "su servicio no está disponible por el momento; probá de nuevo en unos segundos (131016).", isTemporary: true },
  },
  // The two notes cross on their way.
  "0007": { steps: [sent, read, delivered] },
  // The marketing limit; the code as text, as some providers have it.
  "0008": { steps: [failed("131049")] },
  "0009": { slowness: 10 },
  "0010": { reports: 2 },
};

const usual: FixedOutcome = {};

/** `phone` with or without its plus. */
export function outcomeFor(phone: string): FixedOutcome {
  return fixedOutcomes[phone.slice(-4)] ?? usual;
}

/** Most people have read receipts on. */
const readShare = 0.8;

export function stepsOf(outcome: FixedOutcome, random: Random): readonly LifeStep[] {
  return outcome.steps ?? messageLife(random, random.chance(readShare) ? "read" : "delivered");
}
