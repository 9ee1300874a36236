import { hash, randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Lease, leaseTimes } from "../../src/model/route-lease.ts";
import { openPostgresStore } from "../../src/store/postgres/open.ts";
import { openSqliteStore } from "../../src/store/sqlite/open.ts";
import { anEvent, rulesFor } from "../../test/contract/store-events.ts";
import { startPostgres } from "../../test/setup/postgres.ts";
import { buildFile } from "../audit/build-file.ts";
import { createPortLane, type PortLaneParts, placesOf } from "../delivery/port-lane.ts";
import { account } from "../events.ts";
import { familySeconds } from "../load/measure.ts";
import { fillPostgres } from "./fill-postgres.ts";

/** What is in a store before it is measured. */
export interface Stored {
  readonly events: number;
  /** Of them, those that wait to be delivered. */
  readonly waiting: number;
}

/** A store under test, opened as the relay opens it. */
export interface FullSide {
  /** Accepts the next events of this side at once. */
  accept(count: number): Promise<void>;
  /** Delivers so many events as a lane of the relay does, to a destination that answers at once. */
  deliver(count: number): Promise<void>;
  /** Seconds of processor time that the database has used in processes of its own. */
  databaseSeconds(): number;
  /** Of the PostgreSQL; null on SQLite. */
  readonly postgres: { readonly url: string; horizon(): Promise<number> } | null;
}

type Say = (line: string) => void;
type Store = Pick<ReturnType<typeof openSqliteStore>, "accept"> & PortLaneParts["store"];

const route = "tracked";
const rules = rulesFor([{ name: route, order: "message" }], { unknown: "forward" });
const hooks = {
  committed() {},
  failed(error: unknown) {
    throw error;
  },
};

export async function startSqliteSide(
  stored: Stored,
  stack: AsyncDisposableStack,
  say: Say,
): Promise<FullSide> {
  const folder = await mkdtemp(join(tmpdir(), "wamid-relay-full-"));
  stack.defer(() => rm(folder, { recursive: true }));
  const path = join(folder, "relay.db");
  if (stored.events > 0) {
    await openSqliteStore(path, rules, hooks).close();
    // In order of their receipt, as those that come.
    const waiting = { messages: Math.ceil(stored.waiting / 3), dueAt: Date.now() - 3_600_000 };
    buildFile({ path, route, events: stored.events, waiting, say });
  }
  const store = openSqliteStore(path, rules, hooks);
  stack.defer(() => store.close());
  return { ...createSide(store, false, stack), databaseSeconds: () => 0, postgres: null };
}

export async function startPostgresSide(
  stored: Stored,
  stack: AsyncDisposableStack,
  say: Say,
): Promise<FullSide> {
  const server = await startPostgres({ durable: true, tcp: true });
  stack.defer(() => server.stop());
  const { url } = server;
  const held = new Map<string, Lease>();
  const open = () => {
    const presence = {
      id: randomUUID(),
      role: "both",
      host: "bench",
      pid: process.pid,
      version: "bench",
    } as const;
    return openPostgresStore(
      { url, schema: "relay" },
      { rules, hooks, presence, held: () => held },
    );
  };
  if (stored.events > 0) {
    await (await open()).store.close();
    await fillPostgres({ url, route, ...stored, say });
  }
  const { store, horizon } = await open();
  stack.defer(() => store.close());
  const worker = randomUUID();
  await store.leases.beat(worker, [route], leaseTimes.deadAfterMs);
  for (const [name, lease] of await store.leases.take(worker, [route], leaseTimes.deadAfterMs))
    held.set(name, lease);
  return {
    ...createSide(store, true, stack),
    databaseSeconds: () => familySeconds(server.pid),
    postgres: { url, horizon },
  };
}

function createSide(
  store: Store,
  isShared: boolean,
  stack: AsyncDisposableStack,
): Pick<FullSide, "accept" | "deliver"> {
  let accepted = 0;
  const lane = createPortLane({ route, store, isShared });
  stack.defer(() => lane.close());
  return {
    async accept(count) {
      const outcomes = await Promise.all(
        Array.from({ length: count }, () => store.accept(eventOf(accepted++))),
      );
      for (const outcome of outcomes) {
        if (outcome.result !== "accepted" || outcome.disposition !== "routed")
          throw new Error("an event was not accepted and routed");
        for (const place of placesOf(outcome.due)) lane.offer(place);
      }
    },
    deliver: lane.deliver,
  };
}

/** Three for each message. Ids grow with time, as those of the service do. */
function eventOf(number: number) {
  const now = Date.now();
  const time = now.toString(16).padStart(12, "0");
  const message = hash("sha256", String(Math.floor(number / 3)));
  return anEvent({
    id: `${time.slice(0, 8)}-${time.slice(8)}-7${randomUUID().slice(15)}`,
    account,
    wamid: `wamid.${Buffer.from(`\x1d\x18\x0d549115550${message.slice(0, 28)}`).toString("base64")}`,
    status: ["sent", "delivered", "read"][number % 3] as string,
    receivedAt: now,
    data: { conversation: "c".repeat(120) },
  });
}
