/** A fault that the tests must catch: one text of `src`, replaced. */
export interface SeededFault {
  /** The heading in docs/contributing/promises.md of the promise that it breaks. */
  readonly promise: string;
  readonly name: string;
  /** Occurs exactly once in `src`. */
  readonly find: string;
  readonly put: string;
  /** Test files of which at least one fails. */
  readonly tests: readonly string[];
}

/**
 * One fault at least for each promise and each stage. `npm run test:faults` seeds them one after
 * the other.
 */
export const seededFaults: readonly SeededFault[] = [
  {
    promise: "Acknowledged means stored",
    name: "acknowledges an event before the store has it",
    find: "return accepting\n        .event(item.event)\n        .then(",
    put: `return (accepting.event(item.event).catch(() => {}),
        Promise.resolve({ result: "accepted" as const })).then(`,
    tests: ["test/unit/receive/receiver-properties.test.ts"],
  },
  {
    promise: "Acknowledged means stored",
    name: "acknowledges an event that cannot be stored",
    find: 'answer(exchange, "unavailable", refusals.unavailable)',
    put: 'answer(exchange, "unavailable", accepted)',
    tests: ["test/unit/receive/receiver-properties.test.ts"],
  },
  {
    promise: "Acknowledged means stored",
    name: "acknowledges a batch of which a part is not stored",
    find: "await Promise.all(items.slice(from, from + sliceItems).map(one));",
    put: "await Promise.allSettled(items.slice(from, from + sliceItems).map(one));",
    tests: ["test/unit/receive/several.test.ts"],
  },
  {
    promise: "Acknowledged means stored",
    name: "commits without waiting for the disk",
    find: `does not make acknowledged events durable.
  db.pragma("synchronous = FULL");`,
    put: `does not make acknowledged events durable.
  db.pragma("synchronous = NORMAL");`,
    tests: ["test/unit/store/file.test.ts"],
  },
  {
    promise: "Planned once, delivered at least once",
    name: "plans a repeat in the same batch again",
    find: 'if (typeof id.known !== "number" || id.planned !== null) continue;',
    put: 'if (typeof id.known !== "number") continue;',
    tests: ["test/contract/one-store.test.ts"],
  },
  {
    promise: "Planned once, delivered at least once",
    name: "takes an id of another account for a repeat",
    find: "const name = isDerived ? envelope.id : `${account}\\0${envelope.id}`;",
    put: "const name = envelope.id;",
    tests: ["test/contract/one-store.test.ts"],
  },
  {
    promise: "Planned once, delivered at least once",
    name: "makes two participants of a group one event",
    find: 'const key = [wamid, word, participant ?? "", word === "failed"',
    put: 'const key = [wamid, word, "", word === "failed"',
    tests: ["test/unit/model/formats/meta.test.ts"],
  },
  {
    promise: "Planned once, delivered at least once",
    name: "gives two accounts the same delivery ids",
    find: "const key = `${account}\\0${route}`;",
    put: "const key = `${route}`;",
    tests: ["test/unit/model/ids.test.ts"],
  },
  {
    promise: "Ordered per message",
    name: "sends a delivery while an earlier one of its message waits",
    find: "if (open.has(key)) {",
    put: "if (open.has(`${key}!`)) {",
    tests: ["test/contract/one-store.test.ts"],
  },
  {
    promise: "Ordered per message",
    name: "settles an attempt twice",
    find: 'const ends = removal(queue, { only: ["attempts"] });',
    put: "const ends = removal(queue);",
    tests: ["test/contract/one-store.test.ts"],
  },
  {
    promise: "Ordered per message",
    name: "settles under a lease that was lost and taken again",
    find: "a.holder === b.holder && a.epoch === b.epoch;",
    put: "a.holder === b.holder;",
    tests: ["test/integration/postgres/one-store.test.ts"],
  },
  {
    promise: "A status never moves backwards",
    name: "lets any status replace another",
    find: "rules[from].rank < rules[to].rank;",
    put: "rules[from].rank !== rules[to].rank;",
    tests: ["test/unit/track/message-states.test.ts"],
  },
  {
    promise: "A status never moves backwards",
    name: "keeps failed after delivered",
    find: 'failed: { rank: 30, stage: "settled"',
    put: 'failed: { rank: 45, stage: "settled"',
    tests: ["test/unit/track/message-states.test.ts"],
  },
  {
    promise: "A status never moves backwards",
    name: "forgets the error code at a repeated bare failed",
    find: "const error = (rules[status].error && seenError) || state.error;",
    put: "const error = rules[status].error ? seenError : state.error;",
    tests: ["test/unit/track/message-states.test.ts"],
  },
  {
    promise: "A status never moves backwards",
    name: "keeps the last time of a status",
    find: "const isEarlier = known === undefined || at < known;",
    put: "const isEarlier = known === undefined || at > known;",
    tests: ["test/unit/track/message-states.test.ts"],
  },
  {
    promise: "Nothing signed is lost silently",
    name: "ignores an unknown message that a route parks",
    find: 'return unknown === "park" && event.parks !== false ? park : ignored;',
    put: "return ignored;",
    tests: ["test/unit/route/plan.test.ts"],
  },
  {
    promise: "Nothing signed is lost silently",
    name: "delivers to nobody when the attempts are used up",
    find: 'if (wait === undefined)\n    return {\n      kind: "dead",\n      reason: `out of attempts',
    put: 'if (wait === undefined) return { kind: "delivered" };\n  if (wait === undefined)\n    return {\n      kind: "dead",\n      reason: `out of attempts',
    tests: ["test/unit/deliver/decide.test.ts"],
  },
  {
    promise: "Nothing signed is lost silently",
    name: "drops a truncated event while a candidate was not read",
    find: "return reason === null && found > 0 && unknown === 0;",
    put: "return reason === null && found > 0;",
    tests: ["test/unit/track/parking.test.ts", "test/unit/hydrate/pass.test.ts"],
  },
  {
    promise: "Nothing signed is lost silently",
    name: "balances an audit with a delivery missing",
    find: 'if (!isThere)\n        offends("delivery missing"',
    put: 'if (isThere === undefined) offends("delivery missing"',
    tests: ["test/contract/audit-faults.test.ts"],
  },
  {
    promise: "Nothing signed is lost silently",
    name: "never reports missing webhooks",
    find: "const isMissed = missed >= leastMissed && missed >= missedShare * (missed + events);",
    put: "const isMissed = false;",
    tests: ["test/unit/reconcile/silence.test.ts"],
  },
  {
    promise: "Nothing unsigned gets in",
    name: "compares the beginning of a signature",
    find: "timingSafeEqual(signature, expected)) return true;",
    put: "timingSafeEqual(signature.subarray(0, 1), expected.subarray(0, 1))) return true;",
    tests: ["test/unit/signature/verify-properties.test.ts"],
  },
  {
    promise: "Nothing unsigned gets in",
    name: "accepts an old signature",
    find: 'if (isStale(scheme, signed.timestamp, request.nowMs)) return refused("stale-timestamp");',
    put: "",
    tests: ["test/unit/signature/verify-signature.test.ts"],
  },
  {
    promise: "Nothing unsigned gets in",
    name: "verifies with the first secret only",
    find: "for (const { key, fingerprint } of keys) {",
    put: "for (const { key, fingerprint } of keys.slice(0, 1)) {",
    tests: ["test/unit/signature/verify-signature.test.ts"],
  },
  {
    promise: "Nothing unsigned gets in",
    name: "answers a handshake with a wrong token",
    find: 'isAnyOf(tokens, query.get("hub.verify_token") ?? "") !== undefined;',
    put: 'query.get("hub.verify_token") !== null;',
    tests: ["test/integration/meta/webhooks.test.ts"],
  },
  {
    promise: "Nothing unsigned gets in",
    name: "lets an address guess without a limit",
    find: "if (seen > limit())\n",
    put: "if (seen > limit() * 1000)\n",
    tests: ["test/unit/receive/failure-limit.test.ts"],
  },
  {
    promise: "The service is treated with care",
    name: "makes one call more than the cap allows",
    find: "used(now) < limit ? now",
    put: "used(now) <= limit ? now",
    tests: ["test/unit/service/limits/limiter-properties.test.ts"],
  },
  {
    promise: "The service is treated with care",
    name: "sends a message again after an unknown outcome",
    find: 'if (attempt >= attempts || outcome !== "not-done") return null;',
    put: "if (attempt >= attempts) return null;",
    tests: ["test/unit/service/retry.test.ts"],
  },
  {
    promise: "The service is treated with care",
    name: "calls again while the service blocks the address",
    find: "const blockMs = 60_000;",
    put: "const blockMs = 6_000;",
    tests: ["test/unit/service/limits/stops.test.ts"],
  },
  {
    promise: "Personal data stays private",
    name: "shows phone numbers in texts",
    find: '(isPhone(found) ? "[phone]" : found)',
    put: "found",
    tests: ["test/unit/model/mask.test.ts"],
  },
  {
    promise: "Personal data stays private",
    name: "shows secrets that a destination echoes",
    find: "text: (text) => deliverySignatures(search.answer(text)),",
    put: "text: (text) => text,",
    tests: ["test/unit/model/redact.test.ts"],
  },
  {
    promise: "One bad event, destination or client harms only itself",
    name: "rejects a whole batch for one bad command",
    find: "else if (batch.length === 1) batch[0]?.reject(error);",
    put: "else if (batch.length > 0) for (const { reject } of batch) reject(error);",
    tests: ["test/unit/store/commit.test.ts"],
  },
  {
    promise: "One bad event, destination or client harms only itself",
    name: "never opens a breaker",
    find: 'if (failures >= settings.failures) move("open");',
    put: "",
    tests: ["test/unit/deliver/breaker.test.ts"],
  },
  {
    promise: "One bad event, destination or client harms only itself",
    name: "uses up attempts while the Redis of a queue is unavailable",
    find: "pauseUntil: null,\n      spares: true,",
    put: "pauseUntil: null,",
    tests: ["test/unit/deliver/decide.test.ts"],
  },
  {
    promise: "One bad event, destination or client harms only itself",
    name: "connects to a private address that a name resolves to",
    find: "const allowed = addresses.filter(({ address }) => isAllowed(address));",
    put: "const allowed = addresses;",
    tests: ["test/unit/deliver/address-guard.test.ts"],
  },
  {
    promise: "One bad event, destination or client harms only itself",
    name: "routes an event that moved no status to a route of transitions",
    find: '(transition === null ? "no transition" : null)',
    put: "null",
    tests: ["test/unit/route/plan.test.ts"],
  },
  {
    promise: "Two databases, one contract",
    name: "counts the last repeat only on PostgreSQL",
    find: "...add.map((name) => `${quoted(name)} = t.${quoted(name)} + x.${quoted(name)}`),",
    put: "...add.map((name) => `${quoted(name)} = x.${quoted(name)}`),",
    tests: ["test/contract/both-stores.test.ts"],
  },
];
