import type { Random } from "../ids.ts";
import { type LifeStep, messageLife } from "../statuses.ts";
import type { AccountRecord, SendingNumber } from "../world/records.ts";
import { disconnected, invalidPhone, noNumber, noSuchNumber, rejectedByProvider } from "./refusals.ts";

interface FixedOutcome {
  /** The statuses they take, in order. Not given: most are read. */
  readonly steps?: readonly LifeStep[];
  /** So many times slower than others. */
  readonly slowness?: number;
  readonly reports?: number;
  readonly rejection?: { readonly reason: string; readonly isTemporary: boolean };
}

const sent: LifeStep = { status: "sent" };
const delivered: LifeStep = { status: "delivered" };
const read: LifeStep = { status: "read" };
const failed = (errorCode: string | number): LifeStep => ({ status: "failed", errorCode });

/** Numbers with a fixed outcome, by their last four digits (docs/contributing/sandbox.md). */
const fixedOutcomes: Readonly<Record<string, FixedOutcome>> = {
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

/**
 * A phone in international format as the world's records have it: `+` and 5 to 31 digits, nothing else; null for any
 * other text. So many because the document takes a `to` of 6 to 32 characters, though no real phone has more than 15
 * digits (E.164). It starts with `+`: a space before it is refused. Spaces, hyphens, dots and brackets after it are
 * dropped: the sandbox's choice.
 */
export function parsePhone(text: string): string | null {
  const bare = text.replace(/(?<!^)[\s().-]/g, "");
  return /^\+[1-9]\d{4,30}$/.test(bare) ? bare : null;
}

/** The same; other text is refused with 400. */
export function requirePhone(text: string): string {
  const phone = parsePhone(text);
  if (phone === null) throw invalidPhone();
  return phone;
}

/** The number a message goes out from: the one asked for, or the first connected. 409 when there is none. */
export function sendingNumber({ isConnected, numbers }: AccountRecord, phoneNumberId?: string): SendingNumber {
  if (!isConnected) throw disconnected();
  const connected = numbers.filter((number) => number.isConnected);
  const number = phoneNumberId === undefined ? connected[0] : connected.find((other) => other.phoneNumberId === phoneNumberId);
  if (number === undefined) throw phoneNumberId === undefined ? noNumber() : noSuchNumber();
  return number;
}

/** The network provider's first word on a message. Who was rejected for a while is not in the state file: after a restart each is rejected once more. */
export function createProvider() {
  const rejectedBefore = new Set<string>();
  return {
    /** 502 when it does not take messages to `phone`; what is rejected for a while is taken the second time. */
    accept(account: string, phone: string): void {
      const { rejection } = outcomeFor(phone);
      if (rejection === undefined) return;
      const key = `${account}\0${phone}`;
      if (rejection.isTemporary && rejectedBefore.has(key)) return;
      rejectedBefore.add(key);
      throw rejectedByProvider(rejection.reason);
    },
  };
}
