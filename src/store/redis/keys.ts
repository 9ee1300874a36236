import { hash } from "node:crypto";

/*
 * What stands where in Redis. Every key begins with `{prefix}:`, so that all of one relay is in one slot of a Cluster and
 * a step over several keys is possible; the scripts in lua/ build the same names.
 *
 * | key | type | what |
 * |---|---|---|
 * | `seq` | number | the last event's seq: it grows and is never given twice |
 * | `e:<seq>` | row | the event (event-row.ts); after a line's end its bytes, when they are few
 * | `b:<seq>` | string | the bytes received, when they are too many to stand in the row (bodies.ts) |
 * | `id:<account>:<event id>` | number | seq of the event with this id: the dedupe that everything rests on |
 * | `live:<seq / 65536>` | bitmap | which of these events are stored |
 * | `unplanned` | list | seqs of events that are accepted, and to be planned in this order (planning.ts) |
 * | `req:<digest>` | string that expires | id of the event that a signed automation request is |
 * | `dups`, `conflicts` | hash by seq | duplicates that came, and those of them with other bytes |
 * | `m:<account>:<wamid>`, `r:<account>:<run id>` | row | the message or run: the subject. Its version guards all that hangs on it |
 * | `es:<subject>` | zset by seq | seqs of the events about it |
 * | `registered:<m or r>`, `seen:<m or r>` | zset by number | subjects the user registered, and those only seen, in the order they came |
 * | `numbers` | number | the last number given to a subject |
 * | `sid:<service's id>`, `ref:<m or r>:<reference>` | zset by number | registered subjects with it |
 * | `parked` | zset by unix ms | seqs of events parked until then |
 * | `pk:<subject>` | zset by seq | those of a subject |
 * | `releasing` | zset by unix ms registered | subjects with parked events that are still to be released (parking.ts) |
 * | `ignored`, `quarantined` | zset by unix ms received | seqs |
 * | `learned:<account>` | zset by seq | events the relay made itself |
 * | `plans` | hash | verdicts of routes, by their digest |
 * | `routes` | set | routes that ever had a delivery |
 * | `accounts` | set | accounts that ever had an event with an id, or a registration |
 * | `d:<seq>:<route>` | hash | the delivery: `s` state, `n` next at, `a` attempts, `p` spent, `rp` replays, `t` settled at, `r` reason, `o` order, `c` claim, `a1`… attempts |
 * | `due:<route>` | zset by unix ms | waiting, and nobody's |
 * | `leased:<route>` | zset by unix ms | waiting, and claimed until then |
 * | `px:<route>` | zset by unix ms | exchanges of a proxy under way |
 * | `held:<route>`, `dead:<route>` | zset by seq | |
 * | `o:<route>:<order>` | number | seq of the one open delivery of a message that goes out |
 * | `oh:<route>:<order>` | zset by seq | those held behind it |
 * | `stopped` | hash by route | `{"at", "reason"}` of destinations that are stopped |
 * | `breaker:<route>:<settings>` | hash | the breaker and pause of a destination, shared; none when closed and nothing failed (lua/breaker.lua) |
 * | `rate:<route>` | number | unix ms at which the destination's bucket will be full again, shared (lua/rate.lua) |
 * | `caps:<account>:<of the base URL>`, and names that begin so | hash, zsets | the caps of the service and what it taught, shared (lua/caps.lua) |
 * | `proofs` | hash | `<source>:<secret>:<what>` |
 * | `ti:<account>`, `tn:<account>` | zset by unix ms registered | wamids the user registered: with the service's id, and without |
 * | `ask:<account>` | hash by wamid | what is kept of a message that is asked about (ask-record.ts) |
 * | `asks:<account>` | zset by rank and unix ms | wamids by when they are asked about next; while claimed, until then |
 * | `missing:<account>` | zset by unix ms asked | wamids the service does not know: polled no more (the message's row says so too) |
 * | `calls:<account>` | hash | `<day>:polls`, `<day>:others`: calls to the service |
 * | `runs:<account>` | zset by unix ms registered | open runs of the user's |
 * | `h:<seq>` | row | what became of a truncated event (hydration-row.ts) |
 * | `hydrating` | set | accounts that ever had one that waited |
 * | `hw:<account>`, `hc:<account>` | zset by unix ms received | seqs of those that wait: for a sweep, and for the end of the one that covers them |
 * | `ht:<account>`, `ct:<account>` | zset by name | of both those that came with an id, by it |
 * | `sw:<account>` | row | the open sweep (sweep-row.ts) |
 * | `sweeps:<account>` | zset by unix ms ended | `<sweep>:<calls>` |
 * | `s:<0 message, 1 run>:<account>:<key>` | row | a key under which something is sent (sends.ts) |
 * | `sends` | zset by unix ms | `<account>:<key>` of messages, by when they were called for |
 * | `caller:<id>` | string that expires | an opening of a store that may have calls under way |
 * | `cursor:<name>` | row | how far one that listens has come |
 * | `cursors` | zset by unix ms | their names, by when they moved |
 * | `retention` | row | how far it has come (retention-row.ts) |
 * | `kept` | zset by unix ms | seqs of old events of which something is left, by when it is looked at again |
 * | `bare` | zset by unix ms | subjects that have no events left, likewise |
 * | `probed` | number | unix ms of the last proof that storing works |
 * | `heard` | number | unix ms of the last claim, to the second; after three seconds without any, when leases can be over again (lua/claim.lua) |
 * | `schema` | string | how all of this is stored, and a name that changes when Redis lost it (schema-mark.ts) |
 * | `processes` | zset by unix ms | who is connected (presence.ts) |
 * | `migration` | row | how far the migration of a file has come; it stays (migration-row.ts) |
 * | `sightings` | stream | what processes saw of webhooks, for the one that watches (sightings.ts) |
 * | `alarms` | hash | alarms in force (alarms.ts) |
 * | `untold` | hash | changes of alarms that nobody has told of yet, with who is to |
 * | `never` | nothing | it is never written: with it scripts name two keys (script.ts) |
 * | `duty:<name>` | string that expires | the process that does it for all |
 *
 * A row is a string: ten characters of version, then JSON. Members that name an event are padded to fifteen digits where
 * they stand under equal scores, so that they go in their order.
 */
export interface Keys {
  /** `{prefix}:` */
  readonly base: string;
  event(seq: number | string): string;
  body(seq: number | string): string;
  delivery(seq: number | string, route: string): string;
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

/** Bits of one `live:` bitmap. */
export const liveBits = 65_536;

export const padSeq = (seq: number): string => String(seq).padStart(15, "0");

/**
 * By what deliveries of one message are kept in order: short, because every delivery has it. Two messages that fall
 * together (one in 2^72) would wait for each other, and nothing worse.
 */
export const orderKey = (subject: SubjectName): string => hash("sha256", subject, "base64url").slice(0, 12);
