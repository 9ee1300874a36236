import { createRandom, type Random } from "../../sandbox/random.ts";
import { createPhones } from "../../sandbox/wamids.ts";

/** Somebody we write to. */
export interface Recipient {
  /** With its plus. */
  readonly phone: string;
  /** The 24-hour window is open: free text may be sent. */
  readonly wroteBefore: boolean;
}

/** Everybody of a run; no phone comes twice. */
export interface People {
  readonly recipients: readonly Recipient[];
  /** A campaign writes to them, of which the relay is told nothing. */
  readonly strangers: readonly string[];
  /** Those for whom an automation is started. Every fourth has no account on the network. */
  readonly guests: readonly string[];
}

/**
 * Numbers that mean something (docs/sandbox.md) and their shares of all recipients. 0009 is missing: ten times
 * as slow would be longer than the demo.
 */
const meaningful: readonly (readonly [lastDigits: string, share: number])[] = [
  ["0000", 0.05],
  ["0001", 0.05],
  ["0002", 0.02],
  ["0003", 0.03],
  ["0004", 0.05],
  ["0005", 0.01],
  ["0006", 0.02],
  ["0007", 0.05],
  ["0008", 0.02],
  ["0010", 0.03],
];

/** Whether the provider rejects messages to this phone for good. */
export function isRejected(phone: string): boolean {
  return phone.endsWith("0005");
}

/** The same seed makes the same people. */
export function peopleOf(seed: string, counts: Readonly<Record<keyof People, number>>): People {
  const random = createRandom(`${seed}/people`);
  const newPhone = phones(random.fork("phones"));
  return {
    recipients: times(counts.recipients, () => ({ phone: newPhone(drawDigits(random)), wroteBefore: random.chance(0.5) })),
    strangers: times(counts.strangers, () => newPhone(null)),
    guests: times(counts.guests, (index) => newPhone(index % 4 === 3 ? "0000" : null)),
  };
}

function drawDigits(random: Random): string | null {
  let drawn = random.next();
  for (const [digits, share] of meaningful) {
    if (drawn < share) return digits;
    drawn -= share;
  }
  return null;
}

/** Phones that end as told; null: in digits without a meaning. */
function phones(random: Random): (digits: string | null) => string {
  const draw = createPhones(random);
  const known = new Set<string>();
  return (digits) => {
    for (;;) {
      const drawn = draw();
      const phone = `+${digits === null ? drawn : drawn.slice(0, -4) + digits}`;
      // All that mean something begin so.
      if ((digits === null && phone.slice(-4, -2) === "00") || known.has(phone)) continue;
      known.add(phone);
      return phone;
    }
  };
}

function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index));
}
