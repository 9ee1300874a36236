import { StoreUnavailable } from "../port.ts";
import type { Inspecting, Stats } from "../reading.ts";
import { type AuditParts, runAudit } from "./audit/run-audit.ts";

/** Looks at every row from this process, some hundred at a time; Redis and this process do other things in between. */
export function createInspecting(parts: AuditParts, stats: () => Promise<Stats>): Inspecting {
  const ending = new AbortController();
  return {
    stats,
    audit: (order, progress) => runAudit(parts, order, progress, ending.signal),
    async close() {
      ending.abort(new StoreUnavailable("the store is closed"));
    },
  };
}
