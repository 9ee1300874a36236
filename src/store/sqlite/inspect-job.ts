import type { AuditReport } from "../../event/audit-report.ts";
import type { AuditOrder, AuditProgress, Stats } from "../inspecting.ts";

/** What the inspecting thread is asked, and says. `id` joins an answer to what asked for it. */
export type InspectJob =
  | { readonly id: number; readonly kind: "stats" }
  | { readonly id: number; readonly kind: "audit"; readonly order: AuditOrder };

export type InspectAnswer =
  | { readonly id: number; readonly progress: AuditProgress }
  | { readonly id: number; readonly stats: Stats }
  | { readonly id: number; readonly report: AuditReport }
  | { readonly id: number; readonly error: { readonly message: string; readonly code: string | undefined } };
