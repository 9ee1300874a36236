/** Messages and runs as the relay tracks them (docs/endpoints.md). Times are ISO 8601, UTC. */

interface Tracked {
  account: string;
  reference: string | null;
  metadata: Readonly<Record<string, unknown>> | null;
  status: string | null;
  /** First time of each status seen. */
  times: Readonly<Record<string, string>>;
  /** Null: only seen, nobody said that it is theirs. */
  registeredAt: string | null;
  updatedAt: string;
}

export interface RelayMessage extends Tracked {
  wamid: string;
  /** The service's. */
  id: string | null;
  conversationId: string | null;
  errorCode: string | null;
  /** When it was sent, as its registration told. */
  sentAt: string | null;
}

export interface RelayRun extends Tracked {
  runId: string;
  /** Why it failed. */
  error: string | null;
}

export interface MessageFilter {
  account?: string | undefined;
  status?: string | undefined;
  reference?: string | undefined;
  /** Most in all; not given: every one that matches. */
  limit?: number | undefined;
}

export interface RunFilter extends MessageFilter {
  runId?: string | undefined;
}

/** What one secret of a source has proved. */
export interface SecretUse {
  source: string;
  /** Its fingerprint. */
  secret: string;
  /** Where it stands in the settings in force; null when it does not. */
  place: string | null;
  events: number;
  duplicates: number;
  firstAt: string | null;
  lastAt: string | null;
}
