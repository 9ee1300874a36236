// @module-tag slow: each bench starts servers, and measures for seconds. Machines that run tests
// are too noisy for the aims: no speed is asserted.
import { expect, test } from "vitest";
import { type BenchResult, runBench } from "./run-bench.ts";

const within = (least: number, most = Number.POSITIVE_INFINITY) =>
  expect.toSatisfy((value: unknown) => typeof value === "number" && value > least && value < most);
const number = expect.any(Number);
const positive = within(0);
const spread = { median: positive };
const side = { perSecond: spread, p50: spread, p99: spread };
const all = <T>(names: readonly string[], value: T) =>
  Object.fromEntries(names.map((name) => [name, value]));

interface Bench {
  readonly title: string;
  readonly file: string;
  readonly args?: readonly string[];
  readonly figures?: object;
  readonly ratios?: object;
  readonly check?: (result: BenchResult) => void;
}
const figuresOf =
  <T>(check: (figures: T) => void) =>
  ({ figures }: BenchResult) =>
    check(figures as T);
const keys = (names: readonly string[]) =>
  figuresOf<object>((figures) => expect(Object.keys(figures)).toEqual(names));

const ingestSides = ["bare", "fastify", "fastify+bullmq", "relay", "relay+delivery"];

// A bench itself fails when an event is lost, accepted twice, not acknowledged or never delivered.
const benches: readonly Bench[] = [
  {
    title: "audit builds a file, and audits and counts it beside a relay that receives",
    file: "audit",
    figures: { file: { events: 20_000 }, statsMs: number, audit: { eventsPerSecond: positive } },
    ratios: { "p99 at 500/s audit/quiet": { median: number } },
    check: figuresOf<{ audit: Record<"rowsPerSecond" | "eventsPerSecond", number> }>(({ audit }) =>
      expect(audit.rowsPerSecond).toBeGreaterThan(2 * audit.eventsPerSecond),
    ),
  },
  {
    title: "backlog fills, kills, restarts and drains, and loses nothing",
    file: "backlog",
    figures: {
      deliveries: 2000,
      drain: { repeats: number, perSecond: positive },
      readyAfterKillMs: within(10, 100_000),
    },
    ratios: { "ingest end/start": positive },
    check: figuresOf<{
      residentMiB: object;
      diskBytesPerEvent: { waiting: number };
      bodyBytes: number;
    }>((figures) => {
      for (const mib of Object.values(figures.residentMiB)) expect(mib).toEqual(within(20, 500));
      // No less than the body itself, or something was not kept.
      expect(figures.diskBytesPerEvent.waiting).toBeGreaterThan(figures.bodyBytes);
    }),
  },
  {
    title: "backup measures a relay that receives, with and without scheduled backups",
    file: "backup",
    figures: { file: { events: 20_000 }, backupSeconds: { median: number } },
    ratios: { "p99 at 500/s backup/quiet": { median: number } },
  },
  {
    title: "batches compares requests of one status with requests of many",
    file: "batches",
    ratios: all(["sqlite: 1,000 acknowledged/SQLite alone", "sqlite: µs in 100/alone"], {
      median: number,
    }),
    check: keys([
      ...["sqlite 1", "sqlite 10", "sqlite 100", "sqlite 1000"],
      ...["sqlite 1000 beside the other", "sqlite 1 beside the other"],
      "SQLite alone, ms",
    ]),
  },
  {
    title: "console measures every page and the acknowledgements beside a console",
    file: "console",
    ratios: { "p99 at 500/s console/quiet": { median: number } },
    check: figuresOf<{ pageP95Ms: object }>(({ pageP95Ms }) => {
      expect(Object.keys(pageP95Ms).length).toBeGreaterThan(10);
      expect(pageP95Ms).toEqual(all(Object.keys(pageP95Ms), positive));
    }),
  },
  {
    title: "delivery measures both relays in one run and sees every event come out",
    file: "delivery",
    figures: all(["bare", "relay"], side),
    ratios: { "relay/bare": spread },
    check: ({ machine }) =>
      expect(machine).toMatchObject({ cores: positive, syncMs: { p50: positive } }),
  },
  // Fewer than twenty files would mean that the event was not observed.
  {
    title: "event-path counts the files that one webhook passes through",
    file: "event-path",
    figures: { files: within(20, 41) },
  },
  {
    title:
      "flood parks, releases, settles and deletes a campaign of unknown wamids, and frees its disk space",
    file: "flood",
    figures: { store: all(["accepted", "expired", "purged", "released"], { perSecond: positive }) },
    ratios: { "flood/quiet": { median: number } },
    check: figuresOf<{
      relay: object;
      store: {
        bodyBytes: number;
        bytesPerEvent: Record<
          "parked" | "ignored" | "afterRetention" | "secondFlood",
          { file: number; used: number }
        >;
      };
    }>(({ relay, store: { bodyBytes, bytesPerEvent } }) => {
      const { parked, ignored, afterRetention, secondFlood } = bytesPerEvent;
      // No less than the body itself, or something was not kept.
      expect(parked.used).toEqual(within(bodyBytes, 3 * bodyBytes));
      for (const { file } of [ignored, secondFlood]) expect(file).toBeLessThan(1.05 * parked.file);
      // Of 10,000 events one stays, and 4 MiB of pages for the next ones.
      expect(afterRetention).toMatchObject({ used: within(-1, 2), file: within(-1, 500) });
      expect(Object.keys(relay)).toEqual(["quiet", "flood", "after"]);
    }),
  },
  ...[
    { args: [], database: "sqlite", lag: null },
    {
      args: ["--postgres", "--open"],
      database: "postgres",
      lag: { withoutGap: number, afterTheEnd: number },
    },
  ].map(({ args, ...figures }) => ({
    title: `full measures a store with many events against an empty one on ${figures.database}`,
    file: "full",
    args,
    figures: { ...figures, events: 3_000, waiting: 600 },
    ratios: all(
      ["accept", "deliver"].flatMap((step) =>
        ["wall", "processor"].map((by) => `${step} full/empty by ${by}`),
      ),
      spread,
    ),
  })),
  {
    title: "history measures ingest on both sides and their ratio",
    file: "history",
    ratios: { "with/without": { median: number } },
    check: keys(["with", "without"]),
  },
  {
    title: "ingest measures all sides in one run and finds every acknowledged event again",
    file: "ingest",
    figures: all(ingestSides, { closed: side, open: { max: spread }, acknowledged: positive }),
    ratios: {
      "relay/bare": spread,
      ...all(["relay/fastify", "relay/fastify+bullmq", "p99 relay/bare", "µs each relay/bare"], {}),
    },
    check: keys(ingestSides),
  },
  {
    title: "without keep-alive, each side of ingest is measured against itself with keep-alive",
    file: "ingest",
    args: ["--only", "bare,relay", "--no-keep-alive"],
    figures: all(["relay", "bare"], { noKeepAlive: { perSecond: spread } }),
    ratios: all(
      [
        "no keep-alive/keep-alive bare",
        "no keep-alive/keep-alive relay",
        "no keep-alive relay/bare",
      ],
      {},
    ),
    check: keys(["bare", "relay"]),
  },
  {
    title: "month measures the tables and indexes over days with retention and an outage",
    file: "month",
    figures: {
      ...{ accepted: 960, ignored: 96, delivered: 855, dead: 9, mostWaiting: 54 },
      bytes: all(["day 7", "day 16"], { events: number, queue_due: number }),
    },
    ratios: { "day 16/day 7": positive },
  },
  {
    title: "overview measures what others wait while that of many routes is read",
    file: "overview",
    figures: { routes: 200, cells: 61 * 1200, maxMs: { reading: { median: number } } },
    ratios: { "p99 of /healthz reading/quiet": { median: number } },
  },
  {
    title: "processes measures two receivers and two workers on one PostgreSQL",
    file: "processes",
    figures: all(["one", "eight"], {
      perSecond: spread,
      database: spread,
      conflictsPerBatch: { median: within(-1) },
    }),
  },
  {
    title: "sandbox measures sends and events beside the relay, and what a message costs in memory",
    file: "sandbox",
    figures: {
      paced: { sendsPerSecond: 500, p50: positive, p99: positive },
      unpaced: { sendsPerSecond: positive, eventsPerSecond: positive },
      memory: { bytesPerMessage: within(100) },
    },
    ratios: { "sends/500": 1, "events/1500": number },
  },
  {
    title:
      "shared measures from received to delivered on PostgreSQL beside SQLite, and what the database costs",
    file: "shared",
    args: ["--sqlite"],
    figures: all(["postgres", "sqlite"], {
      perSecond: spread,
      relay: { median: within(-1) },
      database: { median: within(-1) },
    }),
    ratios: { "postgres/sqlite": spread },
  },
  {
    title: "no statement that a relay runs again and again is compiled at each call",
    file: "statements",
    figures: { statements: number, compiledAtEachCall: [] },
    ratios: { "µs per event of all statements, as they are/with ?": positive },
  },
  {
    title: "store measures the store through its port on both databases",
    file: "store",
    args: ["--postgres"],
    figures: all(["SQLite engine, in order", "SQLite", "SQLite, 1,000 in one turn", "PostgreSQL"], {
      accept: { wall: {} },
      settle: { wall: {} },
    }),
    ratios: all(
      ["accept", "settle"].flatMap((step) => [
        `wall ${step} SQLite, 1,000 in one turn/SQLite`,
        `wall ${step} SQLite engine, in order/SQLite, in order`,
      ]),
      expect.anything(),
    ),
  },
  {
    title: "views opens each view in Chromium and follows a burst",
    file: "views",
    figures: { longestTaskMs: within(-1) },
    check: figuresOf<{ viewP95Ms: object }>(({ viewP95Ms }) => {
      expect(Object.keys(viewP95Ms)).toHaveLength(12);
      expect(viewP95Ms).toEqual(all(Object.keys(viewP95Ms), positive));
    }),
  },
];

test.concurrent.each(benches)(
  "$title",
  async ({ file, args = [], figures = {}, ratios = {}, check }) => {
    const result = await runBench(`${file}.ts`, ["--short", ...args]);
    expect(result).toMatchObject({ bench: file, figures, ratios });
    check?.(result);
  },
);

test("a wrong flag is a usage error", async () => {
  await expect(runBench("ingest.ts", ["--only", "nothing"])).rejects.toThrow("--only knows bare");
  await expect(runBench("ingest.ts", ["--seconds", "-1"])).rejects.toThrow();
});
