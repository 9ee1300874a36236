export interface MessageFilter {
  readonly account?: string | undefined;
  readonly status?: string | undefined;
  readonly reference?: string | undefined;
  /** Seqs, exclusive. */
  readonly after: number;
  readonly before: number;
  readonly limit: number;
}

/** A message as the API shows it. Times are unix ms. */
export interface MessageView {
  readonly account: string;
  readonly wamid: string;
  readonly id: string | null;
  readonly conversationId: string | null;
  readonly reference: string | null;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  readonly status: string | null;
  readonly errorCode: string | null;
  /** First time of each status seen. */
  readonly times: Readonly<Record<string, number>>;
  /** As told at registration. */
  readonly sentAt: number | null;
  /** Null: only seen, nobody said that it is theirs. */
  readonly registeredAt: number | null;
  readonly updatedAt: number;
}

export interface RunFilter extends MessageFilter {
  readonly runId?: string | undefined;
}

/** A run as the API shows it. Times are unix ms. */
export interface RunView {
  readonly account: string;
  readonly runId: string;
  readonly reference: string | null;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  readonly status: string | null;
  readonly error: string | null;
  readonly times: Readonly<Record<string, number>>;
  /** Null: started by somebody else, and only seen. */
  readonly registeredAt: number | null;
  readonly updatedAt: number;
}

/** What a secret has proved of a source, since it was first seen; retention lowers nothing. Times are unix ms. */
export interface Proof {
  readonly source: string;
  /** The secret's fingerprint. */
  readonly secret: string;
  /** Stored events, quarantined ones included. */
  readonly events: number;
  /** Known ids that came again. */
  readonly duplicates: number;
  readonly firstAt: number;
  readonly lastAt: number;
}
