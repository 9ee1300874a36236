/** What is kept of a message that is asked about, beside when it is asked about next. Times are unix ms. */
export interface AskRecord {
  /** When it was sent, as far as anybody told when the service's id became known. */
  readonly since: number;
  readonly asks: number;
  /** In a row. */
  readonly failures: number;
  /** 404s in a row that count. */
  readonly misses: number;
  /** Of the last answer. */
  readonly askedAt: number | null;
}

/** `since asks failures askedAt misses`: the scripts in lua/ read and write it too. */
export const writeAskRecord = ({ since, asks, failures, askedAt, misses }: AskRecord): string =>
  `${since} ${asks} ${failures} ${askedAt ?? "-"} ${misses}`;

/** Of a message that was never polled. */
export const newAskRecord = (since: number): string => writeAskRecord({ since, asks: 0, failures: 0, misses: 0, askedAt: null });

export function readAskRecord(text: string): AskRecord {
  const [since, asks, failures, askedAt = "-", misses] = text.split(" ");
  return {
    since: Number(since),
    asks: Number(asks),
    failures: Number(failures),
    misses: Number(misses),
    askedAt: askedAt === "-" ? null : Number(askedAt),
  };
}

/** Ranks run from 0 to this one. */
export const lastRank = 31;
/** In one list by score all ranks stand one after the other, each with room for times up to the year 2248. */
export const rankStep = 2 ** 43;

/** Where a message stands that is asked about next at `at` (unix ms). A time told from outside can be any number. */
export const askScore = (rank: number, at: number): number => rank * rankStep + Math.min(Math.max(0, Math.round(at)), rankStep - 1);
