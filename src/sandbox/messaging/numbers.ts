import { type ApiFault, refused } from "../api/fault.ts";
import type { Random } from "../ids.ts";
import { type LifeStep, messageLife } from "../statuses.ts";
import type { AccountRecord, SendingNumber } from "../world/records.ts";

interface FixedOutcome {
  /** Not given: most are read. */
  readonly steps?: readonly LifeStep[];
  readonly slowness?: number;
  readonly reports?: number;
  readonly rejection?: { readonly reason: string; readonly isTemporary: boolean };
}

const sent: LifeStep = { status: "sent" };
const delivered: LifeStep = { status: "delivered" };
const read: LifeStep = { status: "read" };
const failed = (errorCode: string | number): LifeStep => ({ status: "failed", errorCode });

/** By the last four digits (docs/contributing/sandbox.md). */
const fixedOutcomes: Readonly<Record<string, FixedOutcome>> = {
  // No account on the network.
  "0000": { steps: [failed(131026)] },
  // Read receipts off.
  "0001": { steps: [sent, delivered] },
  // Stays pending.
  "0002": { steps: [] },
  // The phone is switched off.
  "0003": { steps: [sent] },
  // Another device of the same person gets it.
  "0004": { steps: [sent, failed(131047), delivered] },
  "0005": { rejection: { reason: "la cuenta del proveedor no tiene un método de pago válido (131042).", isTemporary: false } },
  "0006": {
    rejection: { reason: "su servicio no está disponible por el momento; probá de nuevo en unos segundos (131016).", isTemporary: true },
  },
  // The two notes cross on their way.
  "0007": { steps: [sent, read, delivered] },
  // The marketing limit; some providers have the code as text.
  "0008": { steps: [failed("131049")] },
  "0009": { slowness: 10 },
  "0010": { reports: 2 },
};

export function outcomeFor(phone: string): FixedOutcome {
  return fixedOutcomes[phone.slice(-4)] ?? {};
}

const readShare = 0.8;

export function stepsOf(outcome: FixedOutcome, random: Random): readonly LifeStep[] {
  return outcome.steps ?? messageLife(random, random.chance(readShare) ? "read" : "delivered");
}

/**
 * `+` and 5 to 31 digits, as the document takes a `to` of 6 to 32 characters; null for other text. The sandbox's choice: spaces,
 * hyphens, dots and brackets are dropped.
 */
export function parsePhone(text: string): string | null {
  const bare = text.replace(/(?<!^)[\s().-]/g, "");
  return /^\+[1-9]\d{4,30}$/.test(bare) ? bare : null;
}

export function requirePhone(text: string): string {
  const phone = parsePhone(text);
  if (phone !== null) return phone;
  throw refused(400, "El teléfono no es válido: usá el formato internacional, con + y código de país (por ejemplo, +5491122334455).");
}

export const noSuchNumber = (): ApiFault => refused(409, "No hay ningún número conectado con ese phoneNumberId.");

/** The one asked for, or the first connected. Throws 409 when there is none. */
export function sendingNumber({ isConnected, numbers }: AccountRecord, phoneNumberId?: string): SendingNumber {
  if (!isConnected)
    throw refused(409, "La conexión de mensajería de la cuenta está desconectada: volvé a conectarla desde la configuración.");
  const number = numbers.find((one) => one.isConnected && one.phoneNumberId === (phoneNumberId ?? one.phoneNumberId));
  if (number !== undefined) return number;
  throw phoneNumberId === undefined ? refused(409, "La cuenta no tiene ningún número conectado.") : noSuchNumber();
}
