/** Ages and waits in milliseconds. */
export interface AskTimes {
  /** Age at which a message is asked about for the first time. */
  readonly after: number;
  /** Age from which nothing is asked any more. */
  readonly giveUpAfter: number;
  /** The last status worth asking for. */
  readonly until: "read" | "delivered";
}

/**
 * Ages at which is asked, in multiples of `after`; then on and on, by the last wait. With `after: 60s` an open message
 * is asked about at 1, 2, 3, 5, 10, 20, 40 min, 1 h 20, 2 h 40, 5 h 20, and every 12 hours; one that is `delivered` (may
 * still be read) or `failed` (may still reach another device) after 1, 6 and 24 hours, and every day.
 */
const openAges = { steps: [1, 2, 3, 5, 10, 20, 40, 80, 160, 320, 1040], lastWait: 720 } as const;
const settledAges = { steps: [60, 360, 1440, 2880], lastWait: 1440 } as const;

/** Statuses that nothing more is asked about. */
export function restingStatuses(until: AskTimes["until"]): readonly string[] {
  return until === "delivered" ? ["read", "received", "delivered"] : ["read", "received"];
}

/** The age of the next ask of a message last asked about at `age` (0: never); null: there is none. Always greater than `age`. */
export function nextAskAge(age: number, status: string | null, { after, giveUpAfter, until }: AskTimes): number | null {
  if (status !== null && restingStatuses(until).includes(status)) return null;
  const { steps, lastWait } = isSettled(status) ? settledAges : openAges;
  const last = (steps.at(-1) as number) * after;
  const wait = lastWait * after;
  const step = steps.find((multiple) => multiple * after > age);
  const next = step === undefined ? last + wait * (Math.floor((age - last) / wait) + 1) : step * after;
  return next <= giveUpAfter ? next : null;
}

/** Statuses that are asked about more rarely, and the age at which for the first time. */
export const settledStatuses: readonly string[] = ["delivered", "failed"];
export const firstSettledAge = (after: number): number => settledAges.steps[0] * after;

function isSettled(status: string | null): boolean {
  return status !== null && settledStatuses.includes(status);
}

/** Who goes first when not all can be asked: the open before the settled, and those asked least often first. 0 to 31. */
export function rankOf(status: string | null, asks: number): number {
  return Math.min(asks, 15) + (isSettled(status) ? 16 : 0);
}

/** The wait after so many failures in a row, in milliseconds. */
export function waitAfterFailure(failures: number): number {
  return Math.min(60_000 * 2 ** (failures - 1), 3_600_000);
}
