import { expect, test } from "vitest";
import {
  type AttentionFacts,
  attentionOf,
  createNoticing,
  type RouteFacts,
} from "../../../src/inspect/attention.ts";
import { attentionKinds } from "../../../src/model/attention.ts";
import type { Attention } from "../../../src/model/overview.ts";
import { noQuarantine } from "../../../src/store/port.ts";
import { soundDatabase } from "../../harness/database-facts.ts";

const start = Date.parse("2026-11-21T12:00:00Z");
const minute = 60_000;

const calm = {
  state: "closed",
  pausedUntil: null,
  openUntil: null,
  failingSince: null,
  stop: null,
} as const;
const noBacklog = { waiting: 0, held: 0, dead: 0, oldestDueAt: null, deadSince: null };
const route = (parts: Partial<RouteFacts>): RouteFacts => ({
  route: "crm",
  ...noBacklog,
  breaker: calm,
  failing: null,
  slow: null,
  ...parts,
});

const good: AttentionFacts = {
  now: start,
  routes: [route({ waiting: 3, oldestDueAt: start })],
  missingRoutes: [],
  quarantine: noQuarantine,
  alarms: [],
  stops: [],
  storeFailure: null,
  backupFailure: null,
  database: soundDatabase,
  reload: { result: "applied", at: start, faults: [] },
  unreachable: [],
};

/** The entries at each of several moments; what is noticed at one is remembered at the next. */
function entriesOver(moments: readonly Partial<AttentionFacts>[]): Attention[][] {
  let now = start;
  const notice = createNoticing(() => now);
  return moments.map((moment) => {
    const facts = { ...good, ...moment };
    now = facts.now;
    return notice((noticed) => attentionOf(facts, noticed));
  });
}

const open = {
  state: "open",
  pausedUntil: null,
  openUntil: start + 40_000,
  failingSince: start - 12 * minute,
  stop: null,
} as const;
const paused = { ...calm, pausedUntil: start + 5 * minute };
const alarm = {
  account: "main",
  route: null,
  since: start - minute,
  text: "the text",
  causes: ["a cause"],
};
const quota = {
  account: "main",
  reason: "quota",
  resource: "apiCalls",
  until: start + minute,
} as const;

/** For each kind: facts that show it, when it began, and the entry. */
const faults: readonly {
  readonly title: string;
  readonly facts: Partial<AttentionFacts>;
  readonly entry: Partial<Attention>;
  readonly others?: readonly string[];
}[] = [
  {
    title: "a destination whose breaker is open",
    facts: {
      routes: [
        route({
          waiting: 1_204,
          breaker: open,
          failing: { since: start - minute, attempts: 10, cause: "503" },
        }),
      ],
    },
    entry: {
      kind: "destination-failing",
      subject: "crm",
      since: start - 12 * minute,
      waiting: 1_204,
      nextAt: start + 40_000,
      text: "crm answers 503. 1,204 deliveries wait. Repair the destination. The relay keeps trying; to try at once, retry.",
      action: "retry",
    },
  },
  {
    title: "a destination that refuses each attempt, which does not open the breaker",
    facts: {
      routes: [
        route({ waiting: 1, failing: { since: start - minute, attempts: 3, cause: "401" } }),
      ],
    },
    entry: {
      kind: "destination-failing",
      since: start - minute,
      text: "crm answers 401. 1 delivery waits. Check the URL, the headers and the secret of the route. The relay keeps trying; to try at once, retry.",
    },
  },
  {
    title: "a destination that is called too often",
    facts: {
      routes: [route({ waiting: 3, failing: { since: start - 400, attempts: 16, cause: "429" } })],
    },
    entry: {
      kind: "destination-failing",
      text: "crm answers 429. 3 deliveries wait. Lower the rate or the concurrency of the route. The relay keeps trying; to try at once, retry.",
    },
  },
  {
    title: "a destination that redirects",
    facts: {
      routes: [route({ waiting: 3, failing: { since: start - 400, attempts: 10, cause: "301" } })],
    },
    entry: {
      kind: "destination-failing",
      text: "crm answers 301. 3 deliveries wait. Set the URL of the route to where it redirects. The relay keeps trying; to try at once, retry.",
    },
  },
  {
    title: "a destination that only its settings may keep from being called",
    facts: {
      routes: [
        route({ waiting: 3, failing: { since: start - 400, attempts: 10, cause: "blocked" } }),
      ],
    },
    entry: {
      kind: "destination-failing",
      text: "crm has a private address, which allowPrivate does not allow. 3 deliveries wait. Correct the settings of the route, or repair the destination. The relay keeps trying; to try at once, retry.",
    },
  },
  {
    title: "a destination that refuses ten attempts in a row, however fast they came",
    facts: {
      routes: [route({ waiting: 3, failing: { since: start - 400, attempts: 10, cause: "401" } })],
    },
    entry: {
      kind: "destination-failing",
      severity: "error",
      since: start - 400,
      waiting: 3,
      action: "retry",
    },
  },
  {
    title: "a destination that refuses each delivery for good, so that nothing waits",
    facts: {
      routes: [
        route({
          dead: 10,
          deadSince: start - 400,
          failing: { since: start - 400, attempts: 10, cause: "422" },
        }),
      ],
    },
    entry: {
      kind: "destination-failing",
      text: "crm answers 422. No deliveries wait. Check the URL, the headers and the secret of the route.",
      action: null,
    },
    others: ["dead-letters"],
  },
  {
    title: "a destination whose deliveries are late",
    facts: { routes: [route({ waiting: 2, oldestDueAt: start - 11 * minute })] },
    entry: {
      kind: "destination-failing",
      severity: "warning",
      since: start - 11 * minute,
      waiting: 2,
      action: null,
    },
  },
  {
    title: "a stopped destination, even when nothing waits",
    facts: {
      routes: [
        route({
          breaker: {
            ...calm,
            stop: { reason: "the destination answered 410 (gone)", at: start - minute },
          },
        }),
      ],
    },
    entry: {
      kind: "destination-stopped",
      since: start - minute,
      waiting: 0,
      text: "crm is stopped: the destination answered 410 (gone). New deliveries will wait. Repair the destination, then resume it.",
      action: "resume",
    },
  },
  {
    title: "a long pause",
    facts: { routes: [route({ waiting: 7, breaker: paused })] },
    entry: {
      kind: "destination-paused",
      since: start,
      nextAt: start + 5 * minute,
      waiting: 7,
      action: "resume",
    },
  },
  {
    title:
      "a destination whose deliveries take more than half of its timeout, also when nothing waits",
    facts: { routes: [route({ slow: { since: start - minute, attempts: 3 } })] },
    entry: {
      kind: "destination-slow",
      severity: "warning",
      subject: "crm",
      since: start - minute,
      text: "Deliveries to crm take more than half of its timeout. Let the destination answer before it does its work, or raise its timeout. Attempts over the timeout fail and are repeated.",
      action: null,
    },
  },
  {
    title: "missing webhooks",
    facts: { alarms: [{ alarm: "silence", ...alarm }] },
    entry: {
      kind: "no-webhooks",
      subject: "main",
      since: start - minute,
      text: "Account main: the text. Likely: a cause",
      action: null,
    },
  },
  {
    title: "a refused API key",
    facts: { alarms: [{ alarm: "key", ...alarm }] },
    entry: { kind: "account-stopped", subject: "main", since: start - minute, action: null },
  },
  {
    title: "a used-up quota",
    facts: { stops: [quota] },
    entry: {
      kind: "account-stopped",
      severity: "warning",
      since: start,
      nextAt: start + minute,
      text: "The monthly quota apiCalls of account main is used up: the relay makes no calls until it is renewed. Wait, or change the plan and resume the account.",
      action: "resume",
    },
  },
  {
    title: "faulty polls",
    facts: { alarms: [{ alarm: "polls", ...alarm }] },
    entry: { kind: "reconcile-failing", subject: "main", since: start - minute },
  },
  {
    title: "dead letters",
    facts: { routes: [route({ dead: 17, deadSince: start - 3 * minute })] },
    entry: {
      kind: "dead-letters",
      subject: "crm",
      since: start - 3 * minute,
      waiting: 17,
      text: "17 deliveries to crm ran out of attempts. Repair the destination, then retry them.",
      action: "retry",
    },
  },
  {
    title: "quarantined webhooks",
    facts: { quarantine: { ...noQuarantine, events: 1, oldestAt: start - minute } },
    entry: {
      kind: "quarantined",
      subject: null,
      since: start - minute,
      waiting: 1,
      text: "1 signed webhook is not a valid event. Each one shows the reason. Correct the sender. Release them once an upgraded relay reads them.",
      action: "release",
    },
  },
  {
    title: "events of unknown numbers",
    facts: { quarantine: { ...noQuarantine, unassigned: { events: 2, oldestAt: start - minute } } },
    entry: {
      kind: "unassigned",
      subject: null,
      since: start - minute,
      waiting: 2,
      text: "2 events are for business numbers that no account has. Add the numbers to accounts of their source, reload, then release them.",
      action: "release",
    },
  },
  {
    title: "deliveries of a route that was renamed",
    facts: { missingRoutes: [{ ...noBacklog, route: "old", waiting: 2, held: 1 }] },
    entry: {
      kind: "route-missing",
      subject: "old",
      since: start,
      waiting: 3,
      text: "3 deliveries wait for the route old, which is not in the settings. Put the route back under this name, then reload.",
      action: null,
    },
  },
  {
    title: "a store that cannot write",
    facts: { storeFailure: { text: "the disk is full", isLost: false } },
    entry: {
      kind: "store-failing",
      since: start,
      text: "The relay cannot store events and answers webhooks with 503: the disk is full. Repair the store. The relay then continues by itself.",
      action: null,
    },
  },
  {
    title: "a store that was moved",
    facts: {
      storeFailure: {
        text: "relay.db was moved to relay-2.db; start the relay there",
        isLost: true,
      },
    },
    entry: {
      kind: "store-failing",
      text: "The relay cannot store events and answers webhooks with 503: relay.db was moved to relay-2.db; start the relay there.",
    },
  },
  {
    title: "a scheduled backup that failed",
    facts: {
      backupFailure: { since: start - minute, text: "EACCES: permission denied, mkdir '/backups'" },
    },
    entry: {
      kind: "backup-failing",
      severity: "warning",
      since: start - minute,
      text: "The relay cannot make scheduled backups: EACCES: permission denied, mkdir '/backups'. Correct backup.folder, or make room. The next scheduled backup ends this.",
    },
  },
  {
    title: "a database that may lose events",
    facts: { database: { ...soundDatabase, fsync: false } },
    entry: {
      kind: "database-unsafe",
      severity: "error",
      since: start,
      text: "fsync is off: a crash of PostgreSQL's machine may lose or damage acknowledged events. Set fsync = on.",
    },
  },
  {
    title: "asynchronous standbys",
    facts: { database: { ...soundDatabase, standbys: 1 } },
    entry: { kind: "database-unsafe", severity: "warning", since: start },
  },
  {
    title: "a database with few connections left",
    facts: { database: { ...soundDatabase, connectionsLeft: 3 } },
    entry: { kind: "database-strained", severity: "warning", since: start },
  },
  {
    title: "refused settings",
    facts: {
      reload: {
        result: "refused",
        at: start - minute,
        faults: [{ path: "routes[0].to", message: "is required", source: "relay.yaml:3:5" }],
      },
    },
    entry: {
      kind: "settings-refused",
      since: start - minute,
      text: "The last reload was refused: routes[0].to is required. The previous settings stay in effect. Correct the file, then reload.",
    },
  },
];

test("lists nothing while all is well", () => {
  expect(entriesOver([{}])).toEqual([[]]);
});

test.each(faults)("lists $title until it ends", ({ facts, entry, others = [] }) => {
  const [before, during, after] = entriesOver([{}, facts, {}]);
  expect(before).toEqual([]);
  expect(during).toMatchObject([entry, ...others.map((kind) => ({ kind }))]);
  expect(after).toEqual([]);
});

test("the faults above cover every kind", () => {
  expect(new Set(faults.map(({ entry }) => entry.kind))).toEqual(new Set(attentionKinds));
});

test("keeps the time at which a fault was noticed, and forgets it when the fault ends", () => {
  const failing = { storeFailure: { text: "the disk is full", isLost: false } };
  const [first, second, , again] = entriesOver([
    failing,
    { ...failing, now: start + minute },
    { now: start + 2 * minute },
    { ...failing, now: start + 3 * minute },
  ]);
  expect([first, second, again].map((entries) => entries?.[0]?.since)).toEqual([
    start,
    start,
    start + 3 * minute,
  ]);
});

const quiet: readonly (readonly [string, Partial<AttentionFacts>])[] = [
  ["an open breaker without deliveries", { routes: [route({ breaker: open })] }],
  [
    "two failures in a row",
    {
      routes: [
        route({ waiting: 1, failing: { since: start - 5 * minute, attempts: 2, cause: "503" } }),
      ],
    },
  ],
  [
    "failures of the last minute",
    {
      routes: [route({ waiting: 1, failing: { since: start - 5_000, attempts: 9, cause: "503" } })],
    },
  ],
  [
    "ten failures of deliveries that are all settled",
    { routes: [route({ failing: { since: start - 400, attempts: 10, cause: "401" } })] },
  ],
  [
    "two slow deliveries in a row",
    { routes: [route({ slow: { since: start - 5 * minute, attempts: 2 } })] },
  ],
  [
    "slow deliveries of the last minute",
    { routes: [route({ slow: { since: start - 5_000, attempts: 9 } })] },
  ],
  [
    "a short pause",
    { routes: [route({ waiting: 1, breaker: { ...calm, pausedUntil: start + 59_000 } })] },
  ],
  [
    "a pause that ended",
    { routes: [route({ waiting: 1, breaker: { ...calm, pausedUntil: start } })] },
  ],
  ["a quota that may be renewed", { stops: [{ ...quota, until: start }] }],
  ["an address blocked for a minute", { stops: [{ ...quota, reason: "blocked" }] }],
  ["a pass without an answer of the service", { unreachable: [{ account: "main", since: start }] }],
];

test.each(quiet)("does not list %s", (_, facts) => {
  expect(entriesOver([facts])).toEqual([[]]);
});

test("lists a pause until it ends, however little of it is left", () => {
  const at = (now: number) => ({ now, routes: [route({ waiting: 1, breaker: paused })] });
  const counts = entriesOver([at(start), at(start + 4.9 * minute), at(start + 5 * minute)]).map(
    (entries) => entries.length,
  );
  expect(counts).toEqual([1, 1, 0]);
});

test("lists a service that answers no poll for five minutes", () => {
  const silent = { unreachable: [{ account: "main", since: start }] };
  const [, late] = entriesOver([silent, { ...silent, now: start + 5 * minute }]);
  expect(late).toMatchObject([{ kind: "reconcile-failing", subject: "main", since: start }]);
});

test("lists the most urgent first", () => {
  const all = faults.map(({ facts }) => facts);
  const [entries] = entriesOver([
    Object.assign({}, ...all, {
      routes: all.flatMap(({ routes = [] }) => routes),
      alarms: all.flatMap(({ alarms = [] }) => alarms),
    }),
  ]);
  const kinds = entries?.map(({ kind }) => attentionKinds.indexOf(kind)) ?? [];
  expect(kinds.length).toBeGreaterThan(10);
  expect(kinds).toEqual(kinds.toSorted((a, b) => a - b));
});

test("every sentence has at most 25 words", () => {
  const texts = faults.flatMap(({ facts }) => entriesOver([facts]).flat()).map(({ text }) => text);
  const long = texts
    .flatMap((text) => text.split(/[.:;] /))
    .filter((sentence) => sentence.split(" ").length > 25);
  expect(long).toEqual([]);
});
