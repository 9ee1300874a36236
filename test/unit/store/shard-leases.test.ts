import Database from "better-sqlite3";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Lease, leaseName, readLeaseName, shardOf } from "../../../src/model/route-lease.ts";
import { ddl } from "../../../src/store/schema/ddl.ts";
import { createSqliteRunner } from "../../../src/store/sqlite/runner.ts";
import { beat, handBack, lostLeases, takeLeases } from "../../../src/store/work/leases.ts";

const deadAfter = 10_000;
const deadline = 6_000;
const lanes = [1, 2, 3, 4, 5, 6, 7, 8, 100, 65_537, -1, -2, -3, -4, -99_999_999];
const namesOf = (of: number) =>
  Array.from({ length: of }, (_, number) => leaseName("crm", { number, of }));

interface Worker {
  readonly name: string;
  shards: number;
  readonly held: Map<string, Lease>;
  /** When it sent the last heartbeat that was stored. */
  beatAt: number;
}

const step = fc.record({
  worker: fc.nat(2),
  what: fc.constantFrom("beat", "take", "take", "hand back", "reload", "wait"),
  n: fc.nat(7),
});

test("a lane never has two owners, whichever numbers of shards the workers have", () => {
  let [taken, most] = [0, 0];
  fc.assert(
    fc.property(fc.array(step, { minLength: 30, maxLength: 60 }), (steps) => {
      const db = new Database(":memory:");
      try {
        for (const statement of ddl("sqlite")) db.exec(statement);
        const runner = createSqliteRunner(db);
        let now = 1_000_000;
        const workers: Worker[] = ["one", "two", "three"].map((name) => ({
          name,
          shards: 1,
          held: new Map(),
          beatAt: -deadAfter,
        }));
        for (const { worker: place, what, n } of steps) {
          const worker = workers[place] as Worker;
          const { name, held } = worker;
          if (what === "wait") now += n * 1_000;
          if (what === "reload") worker.shards = 1 + (n % 4);
          // A look begins with a heartbeat, and its answer may be late.
          if (what === "beat" || (what === "take" && n !== 6)) {
            for (const lost of runner.transact(lostLeases([...held.keys()], held)))
              held.delete(lost);
            runner.transact(beat(name, now, namesOf(worker.shards)));
            worker.beatAt = now;
          }
          if (what === "take" && now - worker.beatAt < deadline) {
            const wanted = namesOf(worker.shards).filter(
              (_, number) => n === 7 || number === n % worker.shards,
            );
            for (const [lease, of] of runner.transact(takeLeases(wanted, name, now, deadAfter)))
              held.set(lease, of);
            taken += 1;
          }
          if (what === "hand back")
            for (const [lease, of] of [...held].slice(0, 1 + (n % 2))) {
              runner.transact(handBack(lease, of));
              held.delete(lease);
            }
          for (const lane of lanes) {
            const has = ({ held: of }: Worker, lease: string) => {
              const { shard } = readLeaseName(lease);
              return of.has(lease) && shardOf(lane, shard.of) === shard.number;
            };
            const leasesOf = (of: Worker) => [...of.held.keys()].filter((lease) => has(of, lease));
            const sending = workers.filter(
              (of) => now - of.beatAt < deadline && leasesOf(of).length > 0,
            );
            expect(sending.length, `senders of lane ${lane}`).toBeLessThanOrEqual(1);
            const settling = workers.flatMap((of) => {
              const lost = runner.now(lostLeases(leasesOf(of), of.held));
              return leasesOf(of).filter((lease) => !lost.has(lease));
            });
            expect(settling.length, `leases that settle lane ${lane}`).toBeLessThanOrEqual(1);
            most = Math.max(most, sending.length);
          }
        }
      } finally {
        db.close();
      }
    }),
    { numRuns: 40 },
  );
  expect(taken).toBeGreaterThan(500);
  expect(most).toBe(1);
});

test("statements number the shard of a lane as workers do, and shards are even", () => {
  const db = new Database(":memory:");
  const inStatement = db.prepare("SELECT abs(?) % 65536 * 40503 % 65536 / 256 % ?").pluck();
  const lane = fc.integer({ min: -Number.MAX_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER });
  fc.assert(
    fc.property(lane, fc.integer({ min: 1, max: 64 }), (one, of) => {
      expect(inStatement.get(BigInt(one), BigInt(of))).toBe(shardOf(one, of));
    }),
  );
  db.close();
  for (const stride of [1, 2, 3, 4]) {
    const sizes = [0, 0, 0];
    for (let lane = 1; lane <= 3_000; lane += 1)
      sizes[shardOf(lane * stride, 3)] = (sizes[shardOf(lane * stride, 3)] ?? 0) + 1;
    expect(Math.min(...sizes)).toBeGreaterThan(900);
  }
});
