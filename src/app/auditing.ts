import type { AuditPort, AuditUnderWay } from "../control/audit.ts";
import type { AuditReport } from "../model/audit.ts";
import type { Inspecting } from "../store/reading.ts";

export interface AuditingParts {
  readonly inspecting: Pick<Inspecting, "audit">;
  readonly now: () => number;
  /** What is due is done by now: a relay works on the file. */
  readonly isRunning: boolean;
}

interface Audit {
  readonly ended: Promise<AuditReport>;
  underWay: AuditUnderWay;
}

/** Offenders that are named; the others are counted. */
const mostOffenders = 100;
/** A report that nobody has come for is kept so long: who asked has let a poll of half a minute time out, and asks again. */
const keptMs = 120_000;

/** Audits under way, one for each filter. */
export function createAuditing({ inspecting, now, isRunning }: AuditingParts): AuditPort {
  const audits = new Map<string, Audit>();

  function start(key: string, filter: Parameters<AuditPort["audit"]>[0]): Audit {
    const order = { ...filter, now: now(), isRunning, mostOffenders };
    const audit: Audit = {
      underWay: { checked: 0, of: 0 },
      ended: inspecting.audit(order, (progress) => {
        audit.underWay = progress;
      }),
    };
    audits.set(key, audit);
    const forget = () => {
      if (audits.get(key) === audit) audits.delete(key);
    };
    audit.ended.then(() => setTimeout(forget, keptMs).unref(), forget);
    return audit;
  }

  return {
    async audit(filter, waitMs) {
      const key = JSON.stringify([filter.from, filter.to, filter.source]);
      const audit = audits.get(key) ?? start(key, filter);
      const report = await within(audit.ended, waitMs);
      if (report === null) return audit.underWay;
      if (audits.get(key) === audit) audits.delete(key);
      return report;
    },
  };
}

/** Null when it takes longer than `ms`. */
async function within<T>(ended: Promise<T>, ms: number): Promise<T | null> {
  const { promise: late, resolve } = Promise.withResolvers<null>();
  const timer = setTimeout(() => resolve(null), ms);
  try {
    return await Promise.race([ended, late]);
  } finally {
    clearTimeout(timer);
  }
}
