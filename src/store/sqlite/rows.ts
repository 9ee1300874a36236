/** Rows of the tables (migrations/0001-main.sql). Times are unix ms. */
export interface EventRow {
  seq: number;
  account: number;
  id: Buffer | string | null;
  kind: number | null;
  source: number;
  origin: number;
  received_at: number;
  created_at: number | null;
  secret: number | null;
  subject: number | null;
  status: string | null;
  previous_status: string | null;
  moved: number;
  error_code: string | null;
  disposition: number;
  plan: number | null;
  parked_until: number | null;
  duplicates: number;
  conflicts: number;
  fault: string | null;
  headers: string | null;
  body: Buffer;
  release: number | null;
  mask: number | null;
}

export interface DeliveryRow {
  event: number;
  route: number;
  state: number;
  subject: number | null;
  next_at: number | null;
  attempts: number;
  spent: number;
  replays: number;
  settled_at: number | null;
  reason: string | null;
  cause: string | null;
}

export interface AttemptRow {
  number: number;
  at: number;
  took_ms: number;
  status: number | null;
  error: string | null;
  response: Buffer | null;
}

export interface HydrationRow {
  event: number;
  account: number;
  state: number;
  reason: number | null;
  target: string | null;
  subject: number | null;
  asked: number;
  found: number;
  last: number | null;
  unknown: number | null;
  candidates: string | null;
  settled_at: number | null;
}

export interface HydrationPassRow {
  seq: number;
  account: number;
  through: number;
  started_at: number;
  asked: number;
  ended_at: number | null;
}

export interface SendRow {
  seq: number;
  account: number;
  kind: number;
  key: string;
  state: number;
  fingerprint: string;
  tries: number;
  about: string;
  caller: string;
  started_at: number;
  answer: string | null;
}
