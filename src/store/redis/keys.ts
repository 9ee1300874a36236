import { hash } from "node:crypto";
import { deliveryStates } from "../../model/delivery.ts";
import { hiddenNumber, lastPhoneDigits, maskNumber } from "../../model/mask.ts";

/*
 * All keys in Redis. Every key begins with `{prefix}:`, so that a relay's keys share one slot of a Cluster and a step can
 * use several keys. The scripts in lua/ build the same names.
 *
 * | key | type | what |
 * |---|---|---|
 * | `seq` | number | the last event's seq; never reused |
 * | `e:<seq>` | row | the event (event-rows.ts); after a newline its body, when it is small |
 * | `b:<seq>` | string | the body, when it is too large for the row |
 * | `id:<account>:<event id>` | number | seq of the event with this id, for deduplication |
 * | `live:<seq / 65536>` | bitmap | events that are stored |
 * | `unplanned` | list | seqs of accepted events, planned in this order (planning.ts) |
 * | `req:<digest>` | string that expires | id of the event of a signed automation request |
 * | `dups`, `conflicts` | hash by seq | duplicates received, and those with a different body |
 * | `m:<account>:<wamid>`, `r:<account>:<run id>` | row | the message or run (the subject). Its version guards everything that depends on it |
 * | `es:<subject>` | zset by seq | seqs of the events about it |
 * | `registered:<m or r>`, `seen:<m or r>` | zset by number | registered subjects, and those only seen, in the order of arrival |
 * | `numbers` | number | the last number of a subject |
 * | `mask:<w or r>:<four hex digits>` | zset by number | numbers of messages and runs whose masked id begins with these digits; of runs only when logs mask the id |
 * | `mask:i:<four hex digits>` | zset by number | registered messages whose masked service's id begins so |
 * | `mask:e:<four hex digits>` | zset by seq | seqs of events whose masked id begins so, if logs mask the id |
 * | `phone:<four digits>` | zset by number | numbers of messages whose wamid has a phone number that ends so |
 * | `sid:<service's id>`, `ref:<m or r>:<reference>` | zset by number | registered subjects with it |
 * | `parked` | zset by unix ms | seqs of events parked until then |
 * | `pk:<subject>` | zset by seq | parked events of a subject |
 * | `releasing` | zset by unix ms registered | subjects with parked events still to be released (parking.ts) |
 * | `ignored`, `quarantined` | zset by unix ms received | seqs |
 * | `made:<account>` | zset by seq | events that the relay made from polled state |
 * | `plans` | hash | verdicts of routes, by digest |
 * | `routes` | set | routes that ever had a delivery |
 * | `accounts` | set | accounts that ever had an event with an id, or a registration |
 * | `d:<seq>:<route>` | hash | the delivery: `s` state, `n` next at, `a` attempts, `p` spent, `rp` replays, `t` settled at, `r` reason, `k` cause of the last failed attempt, `o` order, `c` claim, `a1`… attempts |
 * | `due:<route>` | zset by unix ms | waiting, not claimed |
 * | `leased:<route>` | zset by unix ms | waiting, and claimed until then |
 * | `px:<route>` | zset by unix ms | proxied exchanges in flight |
 * | `held:<route>`, `dead:<route>` | zset by seq | |
 * | `cause:<route>:<0 waiting, 3 dead>:<cause>` | zset by seq | those whose last attempt failed for this cause |
 * | `causes:<route>` | set | `<state>:<cause>` of these lists |
 * | `o:<route>:<order>` | number | seq of the only open delivery of a message that is sent |
 * | `oh:<route>:<order>` | zset by seq | deliveries held behind it |
 * | `stopped` | hash by route | `{"at", "reason"}` of destinations that are stopped |
 * | `breaker:<route>:<settings>` | hash | the shared breaker and pause of a destination; missing when closed without failures (lua/breaker.lua) |
 * | `rate:<route>` | number | unix ms at which the destination's shared token bucket is full again (lua/rate.lua) |
 * | `caps:<account>:<of the base URL>`, and names that begin so | hash, zsets | the shared caps of the service (lua/caps.lua) |
 * | `usage` | hash | `<source>:<secret>:<what>`: secret usage |
 * | `ti:<account>`, `tn:<account>` | zset by unix ms registered | registered wamids, with and without the service's id |
 * | `poll:<account>` | hash by wamid | polling state of a message (rows.ts) |
 * | `polls:<account>` | zset by rank and unix ms | wamids by their next poll; while claimed, the end of the claim |
 * | `missing:<account>` | zset by unix ms polled | wamids unknown to the service, no longer polled (also marked in the message's row) |
 * | `calls:<account>` | hash | `<day>:polls`, `<day>:others`: calls to the service |
 * | `runs:<account>` | zset by unix ms registered | registered open runs |
 * | `h:<seq>` | row | the hydration of a truncated event (rows.ts) |
 * | `hydrating` | set | accounts that ever had a waiting hydration |
 * | `hw:<account>`, `hc:<account>` | zset by unix ms received | seqs that wait for a hydration pass, and those that the open pass covers |
 * | `ht:<account>`, `ct:<account>` | zset by name | waiting events with an id, by that id |
 * | `pass:<account>` | row | the open hydration pass (rows.ts) |
 * | `passes:<account>` | zset by unix ms ended | `<pass>:<calls>` of hydration passes |
 * | `s:<0 message, 1 run>:<account>:<key>` | row | an idempotency key of a send (sends.ts) |
 * | `sends` | zset by unix ms | `<account>:<key>` of messages, by the time of the call |
 * | `caller:<id>` | string that expires | an open store that may have calls in flight |
 * | `cursor:<name>` | row | position of a listener |
 * | `cursors` | zset by unix ms | names of cursors, by when they moved |
 * | `once:<key>` | string that expires | a used code, or a session that ended |
 * | `hm:<series>:<unix minute>`, `hh:<series>:<unix hour>` | hash by `<source or route>:<label>`, or by label | counts of the history (history.ts) |
 * | `minutes:<series>`, `hours:<series>` | zset by unix hour | hours that have such minutes, and such hours |
 * | `codes:<unix hour>` | set that expires | error codes that the history counts by name |
 * | `forgotten` | number | unix hour before which the history is deleted |
 * | `retention` | row | progress of the purge (rows.ts) |
 * | `kept` | zset by unix ms | seqs of old events deleted only in part, by when they are checked again |
 * | `bare` | zset by unix ms | subjects without events, likewise |
 * | `probed` | number | unix ms of the last successful probe |
 * | `claimed` | number | unix ms of the last claim, to the second; after three seconds without claims, when leases can expire again (lua/claim.lua) |
 * | `schema` | string | version of the stored format, and a name that changes when Redis lost its data (schema.ts) |
 * | `processes` | zset by unix ms | connected processes (server.ts) |
 * | `migration` | row | progress of the migration of a file; it stays (schema.ts) |
 * | `observations` | stream | observations of webhooks by all processes (notes.ts) |
 * | `alarms` | hash | active alarms (notes.ts) |
 * | `reconciled` | hash by account | the last reconciliation pass (notes.ts) |
 * | `unsent` | hash | alarm changes that no process has reported yet, with the process that should |
 * | `never` | nothing | never written; lets scripts name two keys (script.ts) |
 * | `lease:<name>` | string that expires | the process that holds the lease (notes.ts) |
 *
 * A row is a string: ten characters of version, then JSON. Members that name an event are padded to fifteen digits where
 * scores can be equal, so that they sort by seq.
 */
export interface Keys {
  /** `{prefix}:` */
  readonly base: string;
  event(seq: number | string): string;
  body(seq: number | string): string;
  delivery(seq: number | string, route: string): string;
  /** Undelivered deliveries in a state whose last attempt failed for a cause. */
  cause(route: string, state: "waiting" | "dead", cause: string): string;
  /** Of a subject or row such as `m:main:wamid.…`. */
  of(name: string): string;
}

export function keysOf(prefix: string): Keys {
  const base = `{${prefix}}:`;
  return {
    base,
    event: (seq) => `${base}e:${seq}`,
    body: (seq) => `${base}b:${seq}`,
    delivery: (seq, route) => `${base}d:${seq}:${route}`,
    cause: (route, state, cause) => `${base}cause:${route}:${deliveryStates.indexOf(state)}:${cause}`,
    of: (name) => base + name,
  };
}

/** A subject's own name: `m:<account>:<wamid>` or `r:<account>:<run id>`. Accounts have no colon in their names. */
export type SubjectName = string;

export const messageName = (account: string, wamid: string): SubjectName => `m:${account}:${wamid}`;
export const runName = (account: string, runId: string): SubjectName => `r:${account}:${runId}`;

export function readSubjectName(name: SubjectName): { readonly type: "message" | "run"; readonly account: string; readonly key: string } {
  const end = name.indexOf(":", 2);
  return { type: name[0] === "m" ? "message" : "run", account: name.slice(2, end), key: name.slice(end + 1) };
}

/**
 * The list of what has this masked id; its first digits, because Redis stores a small list in 20 bytes per entry, and a key
 * for each id would take 100. Readers compare the whole id.
 */
export const maskKey = (sort: "w" | "i" | "r" | "e", mask: number): string =>
  `mask:${sort}:${mask.toString(16).padStart(12, "0").slice(0, 4)}`;

/** The lists of a new message or run by its id, with the subject's number. Without the base. */
export function placesOfSubject(name: SubjectName): string[] {
  const { type, key } = readSubjectName(name);
  if (type === "run") {
    const hidden = hiddenNumber(key);
    return hidden === null ? [] : [maskKey("r", hidden)];
  }
  const digits = lastPhoneDigits(key);
  return [maskKey("w", maskNumber(key)), ...(digits === null ? [] : [`phone:${digits}`])];
}

/** The list of an event by its masked id; none for most ids. Without the base. */
export function placesOfEvent(id: string | null): string[] {
  const hidden = id === null ? null : hiddenNumber(id);
  return hidden === null ? [] : [maskKey("e", hidden)];
}

/** Bits of one `live:` bitmap. */
export const liveBits = 65_536;

export const padSeq = (seq: number): string => String(seq).padStart(15, "0");

/**
 * The order key of a message's deliveries: short, because every delivery stores it. Two messages with the same key (one in
 * 2^72) would only wait for each other.
 */
export const orderKey = (subject: SubjectName): string => hash("sha256", subject, "base64url").slice(0, 12);
