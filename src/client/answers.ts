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

export interface Attention {
  kind: string;
  subject: string;
  since: string | null;
  waiting: number | null;
  nextAt: string | null;
  text: string;
  action: "retry" | "resume" | "release" | null;
}

export interface Figure {
  value: number | null;
  /** One for each minute, oldest first. */
  lastHour: (number | null)[];
}

export interface DestinationState {
  route: string;
  to: string;
  kind: string;
  state: "ok" | "attention" | "stopped";
  reason: string | null;
  since: string | null;
  waiting: number;
  held: number;
  dead: number;
  inFlight: number;
  /** From 0 to 1; null without attempts. */
  successLastHour: number | null;
  p50Ms: number | null;
  p99Ms: number | null;
  nextAt: string | null;
}

export interface RelayOverview {
  at: string;
  relay: { version: string; instance: string; storage: string; startedAt: string };
  attention: Attention[];
  goodSince: string | null;
  figures: Record<"eventsPerSecond" | "ackP99Ms" | "oldestDeliverySeconds" | "deliveredShare" | "deadLetters", Figure>;
  destinations: DestinationState[];
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
