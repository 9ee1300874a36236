import { hydrationStates } from "../../model/hydration.ts";
import { sendKinds } from "../../model/send.ts";
import { dispositions } from "../../model/states.ts";

/** `array`: PostgreSQL's type for many values in one parameter. */
export interface Kind<T> {
  readonly sqlite: string;
  readonly postgres: string;
  readonly array: string;
  readonly isNull: boolean;
  /** Only for the compiler. */
  readonly value?: T;
}

function kind<T>(
  sqlite: string,
  postgres: string,
  array: string,
): Kind<T> & { readonly orNull: Kind<T | null> } {
  const one = { sqlite, postgres, array, isNull: false };
  return { ...one, orNull: { ...one, isNull: true } };
}

/** A safe integer: a count, a number of a list, or unix ms. */
const int = kind<number>("INTEGER", "bigint", "bigint[]");
const small = kind<number>("INTEGER", "smallint", "smallint[]");
/** Compared byte by byte on both databases. */
const text = kind<string>("TEXT", 'text COLLATE "C"', "text[]");
export const bytes = kind<Buffer>("BLOB", "bytea", "bytea[]");

type Columns = Readonly<Record<string, Kind<unknown>>>;

export interface Index {
  readonly name: string;
  readonly on: readonly string[];
  readonly isUnique?: boolean;
  readonly where?: string;
}

export interface Table<C extends Columns = Columns> {
  readonly name: string;
  readonly columns: C;
  readonly names: readonly string[];
  readonly key: readonly string[];
  readonly indexes: readonly Index[];
  /** In percent: changed rows find a place in the page. */
  readonly fillfactor: number;
}

type AnyTable = Pick<Table, "columns">;
export type RowOf<T extends AnyTable> = {
  -readonly [K in keyof T["columns"]]: T["columns"][K] extends Kind<infer V> ? V : never;
};
export type ColumnOf<T extends AnyTable> = keyof T["columns"] & string;

interface TableParts<C extends Columns> {
  readonly key: readonly (keyof C & string)[];
  readonly indexes?: Readonly<
    Record<string, Omit<Index, "name" | "on"> & { readonly on: readonly (keyof C & string)[] }>
  >;
  readonly fillfactor?: number;
}

function table<const C extends Columns>(
  name: string,
  columns: C,
  { key, indexes = {}, fillfactor = 100 }: TableParts<C>,
): Table<C> {
  return {
    name,
    columns,
    names: Object.keys(columns),
    key,
    indexes: Object.entries(indexes).map(([short, index]) => ({
      ...index,
      name: `${name}_${short}`,
    })),
    fillfactor,
  };
}

export const blankRow = <T extends Table>(table: T) =>
  Object.fromEntries(table.names.map((name) => [name, null])) as {
    readonly [Name in keyof RowOf<T>]: null;
  };

/*
 * The tables of both databases. Times are unix ms, JSON is text, and words (dispositions, states)
 * are stored as their place in their list.
 */

export const whereQuarantined = `disposition IN (${dispositions.indexOf("quarantined")}, ${dispositions.indexOf("unassigned")})`;

/** An id that its sender gave is unique in its account. */
export const whereGiven = "format IS NULL";
export const whereDerived = "format IS NOT NULL";

/** Disposition, plan and counts change, the rest never does. */
export const events = table(
  "events",
  {
    seq: int,
    account: text,
    /** 16 bytes of a UUID, or the bytes of another id behind a zero byte. Null: quarantined. */
    id: bytes.orNull,
    kind: text.orNull,
    /** Null: the relay's own envelope. */
    format: text.orNull,
    /** The signed request that brought several events, and the event's place in it. */
    request: text.orNull,
    place: int.orNull,
    source: text,
    origin: small,
    received_at: int,
    created_at: int.orNull,
    /** Fingerprint of the secret that verified it. */
    secret: text.orNull,
    subject: int.orNull,
    status: text.orNull,
    previous_status: text.orNull,
    moved: small,
    error_code: text.orNull,
    disposition: small,
    plan: int.orNull,
    duplicates: int,
    conflicts: int,
    fault: text.orNull,
    release: int.orNull,
    mask: int.orNull,
    headers: text.orNull,
    body: bytes,
  },
  {
    key: ["seq"],
    indexes: {
      id: { on: ["id", "account"], isUnique: true, where: whereGiven },
      derived: { on: ["id"], isUnique: true, where: whereDerived },
      subject: { on: ["subject"], where: "subject IS NOT NULL" },
      mask: { on: ["mask"], where: "mask IS NOT NULL" },
      error: { on: ["error_code", "seq"], where: "error_code IS NOT NULL" },
      polled: { on: ["account", "seq"], where: "origin <> 0" },
      ignored: { on: ["received_at"], where: `disposition = ${dispositions.indexOf("ignored")}` },
      quarantined: { on: ["received_at", "seq"], where: whereQuarantined },
      request: { on: ["request"], where: "request IS NOT NULL" },
      quarantined_list: {
        on: ["disposition", "seq"],
        where: `disposition = ${dispositions.indexOf("quarantined")}`,
      },
    },
  },
);

/**
 * Derived ids of bodies that are no events, and of events that are deleted: senders repeat for a
 * week.
 */
export const ids = table(
  "ids",
  { id: bytes, seq: int, until: int },
  { key: ["id"], indexes: { until: { on: ["until"] } } },
);

/** The id is the first 48 bits of the verdicts' SHA-256. */
export const plans = table("plans", { id: int, verdicts: text }, { key: ["id"] });

export const whereReadable = "type = 0 AND registered_at IS NOT NULL AND service_id IS NOT NULL";
export const whereUnreadable = "type = 0 AND registered_at IS NOT NULL AND service_id IS NULL";
/**
 * Apart from `status`: PostgreSQL updates a row in place only while no index has a changed column.
 */
export const failedFlag = 1;
export const whereFailed = `flag = ${failedFlag}`;

/** Messages (type 0) and automation runs (type 1). */
export const subjects = table(
  "subjects",
  {
    seq: int,
    type: small,
    account: text,
    /**
     * 16 bytes of the SHA-256 of `name`: others for a run. The first six are the number of the
     * masked id.
     */
    key: bytes,
    /** wamid or run id. */
    name: text,
    service_id: text.orNull,
    /** The first 48 bits of the SHA-256 of `service_id`. */
    service_mask: int.orNull,
    reference: text.orNull,
    metadata: text.orNull,
    registered_at: int.orNull,
    status: text.orNull,
    /**
     * With the status in an index, PostgreSQL would write all index entries of a changed row anew.
     */
    flag: small.orNull,
    error: text.orNull,
    times: text,
    updated_at: int,
    conversation_id: text.orNull,
    registered_sent_at: int.orNull,
    polled_at: int.orNull,
    /** 1: the service does not know it. */
    missing: small.orNull,
    /** The last four digits of the phone number or user id. */
    phone: int.orNull,
  },
  {
    key: ["seq"],
    indexes: {
      key: { on: ["key", "account"], isUnique: true },
      phone: { on: ["phone", "seq"], where: "phone IS NOT NULL" },
      reference: { on: ["reference", "seq"], where: "reference IS NOT NULL" },
      service: { on: ["service_mask"], where: "service_mask IS NOT NULL" },
      failed: { on: ["flag", "seq"], where: whereFailed },
      error: { on: ["error", "seq"], where: "error IS NOT NULL" },
      readable: { on: ["account", "registered_at", "seq"], where: whereReadable },
      unreadable: { on: ["account", "registered_at", "seq"], where: whereUnreadable },
      runs: { on: ["type", "seq"], where: "type = 1" },
    },
    fillfactor: 85,
  },
);

/** `next_at` of what no clock starts. */
export const never = Number.MAX_SAFE_INTEGER;

/** `exchange`: a proxied request, which its process settles within a minute. */
export const queueState = { waiting: 0, held: 1, parked: 2, exchange: 3 } as const;

export const whereParked = `state = ${queueState.parked}`;

/** `lane`: the subject of an ordered or parked delivery, else -event. */
export const queue = table(
  "queue",
  {
    lane: int,
    route: text,
    event: int,
    account: text,
    state: small,
    next_at: int,
    attempts: int,
    /** Attempts since it was planned or replayed. */
    spent: int,
    replays: int,
    cause: text.orNull,
  },
  {
    key: ["lane", "route", "event"],
    // With `cause`, groups of failing deliveries need no look at the rows.
    indexes: {
      due: { on: ["state", "route", "next_at", "event", "cause"] },
      parked: { on: ["lane", "event"], where: whereParked },
    },
    fillfactor: 60,
  },
);

export const settledState = { delivered: 0, dead: 1 } as const;

export const deliveries = table(
  "deliveries",
  {
    event: int,
    route: text,
    account: text,
    lane: int,
    state: small,
    attempts: int,
    spent: int,
    replays: int,
    settled_at: int,
    reason: text.orNull,
    cause: text.orNull,
    at: int.orNull,
    took_ms: int.orNull,
    status: int.orNull,
    error: text.orNull,
    response: bytes.orNull,
  },
  {
    key: ["event", "route"],
    indexes: { dead: { on: ["route", "event", "cause"], where: `state = ${settledState.dead}` } },
  },
);

export const attempts = table(
  "attempts",
  {
    event: int,
    route: text,
    number: int,
    at: int,
    took_ms: int,
    status: int.orNull,
    error: text.orNull,
    response: bytes.orNull,
  },
  { key: ["event", "route", "number"] },
);

export const wherePolled = "next_at IS NOT NULL";

/** `next_at` null: the service does not know the message. */
export const polls = table(
  "polls",
  {
    message: int,
    account: text,
    since: int,
    rank: int,
    next_at: int.orNull,
    polls: int,
    failures: int,
    misses: int,
    answered_at: int.orNull,
  },
  {
    key: ["message"],
    indexes: {
      next: { on: ["account", "rank", "next_at"], where: wherePolled },
      missing: { on: ["account", "answered_at"], where: "next_at IS NULL" },
    },
  },
);

export const whereHydrating = `state = ${hydrationStates.indexOf("waiting")}`;

/** `more`: the outcome as JSON; null while it waits. */
export const hydrations = table(
  "hydrations",
  { event: int, account: text, received_at: int, state: small, more: text.orNull },
  {
    key: ["event"],
    indexes: { waiting: { on: ["account", "event", "received_at"], where: whereHydrating } },
  },
);

/**
 * `at`: unix minutes; 0 for a total; the negative of its first minute for an hour. `of`: a source
 * or route. `writer`: the process, so that processes do not wait for each other; empty on SQLite
 * and in hours.
 */
export const counters = table(
  "counters",
  { at: int, account: text, series: text, of: text, label: text, writer: text, n: int },
  // All that a batch counts is in few pages.
  { key: ["at", "series", "of", "account", "label", "writer"], fillfactor: 50 },
);

/** Those of messages are kept as long as the settings say; those of runs stay. */
export const sends = table(
  "sends",
  {
    account: text,
    kind: small,
    key: text,
    state: small,
    /** Calls that may have had an effect. */
    attempts: int,
    about: text,
    caller: text,
    started_at: int,
    fingerprint: text,
    /** JSON; null unless the call is done. */
    answer: text.orNull,
  },
  {
    key: ["account", "kind", "key"],
    indexes: { old: { on: ["started_at"], where: `kind = ${sendKinds.indexOf("message")}` } },
    fillfactor: 85,
  },
);

/** Small shared things as JSON. They may go after `until`. */
export const state = table(
  "state",
  { key: text, value: text, version: int, until: int.orNull },
  {
    key: ["key"],
    indexes: { until: { on: ["until"], where: "until IS NOT NULL" } },
    fillfactor: 70,
  },
);

export const tables: readonly Table[] = [
  events,
  ids,
  plans,
  subjects,
  queue,
  deliveries,
  attempts,
  polls,
  hydrations,
  counters,
  sends,
  state,
];
