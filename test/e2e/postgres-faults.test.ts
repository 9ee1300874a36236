// Slow: it takes disk, connections and network from PostgreSQL under load.
import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { test } from "vitest";
import { openNetwork } from "../harness/network.ts";
import { openSession, type Session } from "../harness/postgres-session.ts";
import { soakSize } from "../harness/soak.ts";
import { mountSmallDisk } from "../harness/tmpfs.ts";
import { until } from "../harness/until.ts";
import { startPostgres } from "../setup/postgres.ts";
import { type Ground, startGround } from "./postgres-ground.ts";

const postsPerSecond = soakSize(40, 100);
const size = { receivers: 2, workers: 2, postsPerSecond };
const mib = 1024 ** 2;

async function refusedNow({ load }: Ground): Promise<void> {
  const wanted = load.refused() + postsPerSecond;
  await until("posts are refused", () => load.refused() >= wanted);
}

async function acceptedAgain({ load }: Ground): Promise<void> {
  const since = Date.now();
  await until("events are accepted again", () => load.lastAnswerAt() > since);
}

/** Writes a file until the disk is full. */
function fill(path: string): void {
  const file = openSync(path, "w");
  for (let bytes = mib; bytes >= 4096; ) {
    try {
      writeSync(file, Buffer.alloc(bytes));
    } catch {
      bytes /= 2;
    }
  }
  closeSync(file);
}

/** Why the first receiver is not ready. */
async function reasonOf({ receivers }: Ground): Promise<string> {
  const { body } = (await receivers[0]?.relay.ask("/readyz")) ?? {};
  return String((body as { readonly reason?: unknown } | undefined)?.reason);
}

test("a full disk of the server: posts get 503, and nothing is lost once there is space", async () => {
  const disk = mountSmallDisk(96 * mib);
  await using server = await startPostgres({ disk, durable: true });
  const ground = await startGround(server.url, size);
  await ground.answered(postsPerSecond);

  const filler = join(disk, "filler");
  fill(filler);
  await until("the receiver reports the disk", async () => (await reasonOf(ground)).includes("No space left on device"));
  await refusedNow(ground);
  rmSync(filler);
  await acceptedAgain(ground);

  await ground.answered(postsPerSecond);
  await ground.expectAccounted();
});

test("all connections taken by other clients: posts get 503, and nothing is lost once some are free", async () => {
  await using server = await startPostgres({ settings: { max_connections: 45 } });
  const ground = await startGround(server.url, size);
  await ground.answered(postsPerSecond);

  await using session = await openSession(server.url);
  const others: Session[] = [];
  const takeFree = async () => {
    for (;;) {
      const other = await openSession(server.url).catch(() => null);
      if (other === null) return;
      others.push(other);
    }
  };
  await until("the relay has no connection", async () => {
    await takeFree();
    const ofRelay = "FROM pg_stat_activity WHERE application_name = 'wamid-relay'";
    if ((await session.number(`SELECT count(*) ${ofRelay}`)) === 0) return true;
    await session.rows(`SELECT pg_terminate_backend(pid, 1000) ${ofRelay}`);
    return false;
  });
  await until("the receiver reports it", async () => (await reasonOf(ground)).includes("too many clients"));
  await refusedNow(ground);
  for (const other of others) await other[Symbol.asyncDispose]();
  await acceptedAgain(ground);

  await ground.answered(postsPerSecond);
  await ground.expectAccounted();
});

test("a network that drops all packets for a while, also with statements in flight, loses nothing and plans nothing twice", async () => {
  await using server = await startPostgres({ tcp: true });
  const network = await openNetwork(server.port);
  const ground = await startGround(`postgres://relay@127.0.0.1:${network.port}/postgres`, size);
  for (const what of ["all", "answers"] as const) {
    await ground.answered(postsPerSecond);
    network.cut(what);
    await refusedNow(ground);
    await network.mend();
    await acceptedAgain(ground);
  }
  await ground.answered(postsPerSecond);
  await ground.expectAccounted();
});

test("a network that takes 200 ms there and back slows the relay, and loses nothing", async () => {
  await using server = await startPostgres({ tcp: true });
  const network = await openNetwork(server.port);
  const ground = await startGround(`postgres://relay@127.0.0.1:${network.port}/postgres`, size);
  await ground.answered(postsPerSecond);
  network.slow(100);
  network.lead(server.port);
  await acceptedAgain(ground);
  await ground.answered(2 * postsPerSecond);
  network.slow(0);
  network.lead(server.port);
  await acceptedAgain(ground);
  await ground.answered(postsPerSecond);
  await ground.expectAccounted();
});
