import { type ApiFault, refused } from "../api/fault.ts";
import type { Publisher } from "../events/publisher.ts";
import type { Random } from "../ids.ts";
import {
  delivered,
  failed,
  isReported,
  type LifeStep,
  type MessageStatus,
  reaches,
  read,
  sent,
  supersedes,
} from "../statuses.ts";
import type { AccountRecord, Core, FutureStep, MessageRecord, SendingNumber } from "../world.ts";

/** The only place that changes a status. */
export function createLives({ world, clock }: Core, publisher: Publisher) {
  const change = (message: MessageRecord, { status, errorCode }: Omit<FutureStep, "at">): void => {
    const before = { ...message };
    const now = clock.now();
    Object.assign(message, {
      status,
      statusAt: now,
      errorCode: status === "failed" ? errorCode : undefined,
    });
    if (reaches(status, "delivered")) message.deliveredAt ??= now;
    if (reaches(status, "read")) message.readAt ??= now;
    const campaign = world.campaigns.get(message.campaignId ?? "");
    if (campaign === undefined) return;
    const moved = (is: (of: MessageRecord) => boolean) => Number(is(message)) - Number(is(before));
    world.campaigns.update(campaign, {
      deliveries: campaign.deliveries + moved(({ deliveredAt }) => deliveredAt !== undefined),
      reads: campaign.reads + moved(({ readAt }) => readAt !== undefined),
      failed: campaign.failed + moved((of) => of.status === "failed"),
    });
  };
  const publish = (message: MessageRecord): void => {
    const { reports = 1 } = outcomeFor(message.phone);
    for (let report = 0; report < reports; report += 1) publisher.messageStatus(message);
  };
  const take = (message: MessageRecord, step: FutureStep): void => {
    message.future.shift();
    const isLate = !supersedes(message.status, step.status);
    if (!isLate) change(message, step);
    world.messages.put(message);
    // A late note is reported as what it says.
    publish(isLate ? { ...message, status: step.status } : message);
  };
  const follow = (message: MessageRecord): void => {
    const step = message.future[0];
    if (step === undefined) return;
    clock.after(Math.max(0, step.at - clock.now()), () => {
      // Called off meanwhile.
      if (message.future[0] !== step) return;
      take(message, step);
      follow(message);
    });
  };
  return {
    follow,
    move(message: MessageRecord, status: MessageStatus, errorCode?: string | number): void {
      message.future = [];
      change(message, { status, errorCode });
      world.messages.put(message);
      if (isReported(status)) publish(message);
    },
  };
}

/** Milliseconds after the step before, from and to, at speed 1. */
const waits: Readonly<Partial<Record<MessageStatus, readonly [number, number]>>> = {
  sent: [200, 1_000],
  delivered: [500, 4_000],
  read: [3_000, 60_000],
  failed: [300, 3_000],
};

const readShare = 0.8;

/** `now` in unix milliseconds. The same `random` gives the same life. */
export function planLife(
  phone: string,
  { now, random, speed }: { now: number; random: Random; speed: number },
): FutureStep[] {
  const {
    steps = random.chance(readShare) ? [sent, delivered, read] : [sent, delivered],
    slowness = 1,
  } = outcomeFor(phone);
  let at = now;
  return steps.map((step) => {
    const [least, most] = waits[step.status] ?? [0, 0];
    at += ((least + random.next() * (most - least)) * slowness) / speed;
    return { ...step, at: Math.round(at) };
  });
}

interface FixedOutcome {
  readonly steps?: readonly LifeStep[];
  readonly slowness?: number;
  readonly reports?: number;
  readonly rejection?: { readonly reason: string; readonly isTemporary: boolean };
}

/** docs/contributing/sandbox.md, "Numbers with a fixed outcome". */
const fixedOutcomes: Readonly<Record<string, FixedOutcome>> = {
  "0000": { steps: [failed(131026)] },
  "0001": { steps: [sent, delivered] },
  "0002": { steps: [] },
  "0003": { steps: [sent] },
  "0004": { steps: [sent, failed(131047), delivered] },
  "0005": {
    rejection: {
      reason: "la cuenta del proveedor no tiene un método de pago válido (131042).",
      isTemporary: false,
    },
  },
  "0006": {
    rejection: {
      reason:
        "su servicio no está disponible por el momento; probá de nuevo en unos segundos (131016).",
      isTemporary: true,
    },
  },
  "0007": { steps: [sent, read, delivered] },
  "0008": { steps: [failed("131049")] },
  "0009": { slowness: 10 },
  "0010": { reports: 2 },
};

export function outcomeFor(phone: string): FixedOutcome {
  return fixedOutcomes[phone.slice(-4)] ?? {};
}

/** `+` and digits; null for other text. */
export function parsePhone(text: string): string | null {
  const bare = text.replace(/(?<!^)[\s().-]/g, "");
  return /^\+[1-9]\d{4,30}$/.test(bare) ? bare : null;
}

export function requirePhone(text: string): string {
  const phone = parsePhone(text);
  if (phone !== null) return phone;
  throw refused(
    400,
    "El teléfono no es válido: usá el formato internacional, con + y código de país (por ejemplo, +5491122334455).",
  );
}

export const noSuchNumber = (): ApiFault =>
  refused(409, "No hay ningún número conectado con ese phoneNumberId.");

export function sendingNumber(
  { isConnected, numbers }: AccountRecord,
  phoneNumberId?: string,
): SendingNumber {
  if (!isConnected)
    throw refused(
      409,
      "La conexión de mensajería de la cuenta está desconectada: volvé a conectarla desde la configuración.",
    );
  const number = numbers.find(
    (one) => one.isConnected && one.phoneNumberId === (phoneNumberId ?? one.phoneNumberId),
  );
  if (number !== undefined) return number;
  throw phoneNumberId === undefined
    ? refused(409, "La cuenta no tiene ningún número conectado.")
    : noSuchNumber();
}
