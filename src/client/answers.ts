/*
 * Answers of endpoints whose schemas are not in src/model yet. Each moves there with its endpoint; the names stay.
 */

export interface RelaySession {
  name: string;
  scopes: string[];
  expiresAt: string;
}

export interface SessionCode {
  code: string;
  expiresAt: string;
}

export interface RelaySeries {
  name: string;
  by: string | null;
  unit: "count" | "ms" | "s";
  step: 60 | 3600 | 86400;
  from: string;
  to: string;
  /** `values[i]` is at `from` + i × `step` seconds. */
  series: { label: string; values: (number | null)[]; total: number | null }[];
}

export interface RelayQuality {
  sent: number;
  delivered: number;
  read: number;
  failed: number;
  pending: number;
  errors: { code: string; meaning: string | null; count: number }[];
  toDelivered: { p50: number | null; p90: number | null };
  toRead: { p50: number | null; p90: number | null };
}

export interface SearchHit {
  kind: "message" | "run" | "event" | "delivery";
  id: string;
  seq: number | null;
  account: string | null;
  label: string;
  status: string | null;
  at: string;
}

export interface DeliveryGroup {
  route: string;
  state: "waiting" | "held" | "delivered" | "dead";
  cause: string | null;
  attempted: boolean;
  count: number;
  oldestAt: string | null;
  newestAt: string | null;
}
