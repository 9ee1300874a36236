// Slow: it starts servers of its own.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { chownSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect as connectTo, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { setImmediate, setTimeout as wait } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { readPostgresUrl } from "../../../src/model/postgres.ts";
import { leaseTimes } from "../../../src/model/route-lease.ts";
import type { TlsSettings } from "../../../src/net/tls.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";
import { connect } from "../../../src/store/postgres/connect.ts";
import {
  openPostgresForReading,
  openPostgresStore,
  type PostgresStore,
} from "../../../src/store/postgres/open.ts";
import { presentEveryMs } from "../../../src/store/postgres/server.ts";
import { createReads } from "../../../src/store/postgres/sessions.ts";
import { events } from "../../../src/store/schema/tables.ts";
import { rows } from "../../../src/store/sql/ops.ts";
import { as, select, sql, typed } from "../../../src/store/sql/sql.ts";
import { anEvent, rulesFor } from "../../contract/store-events.ts";
import { openNetwork } from "../../harness/network.ts";
import { openSession } from "../../harness/postgres-session.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { longestWaitMs, until } from "../../harness/until.ts";
import { createDatabase } from "../../setup/database.ts";
import { startPostgres } from "../../setup/postgres.ts";
import { selfSigned } from "../url-destination/self-signed.ts";

const rules = rulesFor([{ name: "crm" }]);
const e = as(events, "e");

interface Opened extends AsyncDisposable {
  readonly opened: PostgresStore;
  readonly store: PostgresStore["store"];
  readonly id: string;
  /** What the hooks reported. */
  readonly reports: string[];
}

async function open(url: string, schema = "relay", tls?: TlsSettings): Promise<Opened> {
  const reports: string[] = [];
  const id = randomUUID();
  const opened = await openPostgresStore(
    { url, schema, tls },
    {
      rules,
      hooks: {
        committed: () => reports.push("stored"),
        failed: (error) => reports.push((error as Error).message),
      },
      presence: { id, role: "both", host: "here", pid: 1, version: "1" },
      held: () => null,
    },
  );
  return { opened, store: opened.store, id, reports, [Symbol.asyncDispose]: opened.store.close };
}

const stored = async ({ opened }: Opened): Promise<number> =>
  (await opened.read(rows(select({ seq: e.seq })`FROM events e`))).length;
/**
 * Without an answer of the server, which would take seconds: within a few turns of the event loop.
 */
async function expectRefusedAtOnce(one: Opened): Promise<void> {
  let isRefused: boolean | null = null;
  const refused = accepts(one).then((isAccepted) => {
    isRefused = !isAccepted;
  });
  for (let turn = 0; turn < 100 && isRefused === null; turn += 1) await setImmediate();
  expect(isRefused).toBe(true);
  await refused;
}

/** Together: one after the other they would take many times as long. */
async function expectAllRefused(one: Opened, count: number): Promise<void> {
  const startedAt = performance.now();
  const outcomes = await Promise.all(Array.from({ length: count }, () => accepts(one)));
  expect(outcomes).not.toContain(true);
  expect(performance.now() - startedAt).toBeLessThan(longestWaitMs);
}

const accepts = async ({ store }: Opened): Promise<boolean> =>
  store.accept(anEvent()).then(
    () => true,
    (error: unknown) => {
      expect(error).toBeInstanceOf(StoreUnavailable);
      return false;
    },
  );

test("processes that start at once make one schema, and know each other", async () => {
  await using database = await createDatabase();
  const all = await Promise.all(Array.from({ length: 4 }, () => open(database.url, "Relay-1")));
  expect(await Promise.all(all.map(accepts))).toEqual([true, true, true, true]);
  const [first, second] = all as [Opened, Opened];
  expect(await stored(first)).toBe(4);
  expect((await first.opened.processes()).map(({ id }) => id).sort()).toEqual(
    all.map(({ id }) => id).sort(),
  );
  // Each knows the time as exactly as the fastest answer so far: a busy machine takes several.
  await until(
    "their clocks agree",
    () => Math.abs(first.opened.clock.now() - second.opened.clock.now()) < 50,
  );
  await second.store.close();
  expect((await first.opened.processes()).map(({ id }) => id)).not.toContain(second.id);
  for (const one of all) if (one !== second) await one.store.close();
});

test("a process hears of what another one stored and made due, and of routes that were resumed", async () => {
  await using database = await createDatabase();
  await using one = await open(database.url);
  await using two = await open(database.url);
  const heard: unknown[] = [];
  two.store.onDue({ offer: (due) => heard.push(...due), wake: (route) => heard.push(route) });
  let woken = 0;
  two.store.onStored(() => {
    woken += 1;
  });
  const outcome = await one.store.accept(anEvent());
  if (outcome.result === "accepted") one.store.announce(outcome.due);
  await until("it is told", () => heard.length === 1 && woken > 0);
  expect(heard).toMatchObject([{ route: "crm", event: 1 }]);
  expect(await two.opened.horizon()).toBe(1);
  await one.store.resume("crm");
  await until("it is told of the route", () => heard.length === 2);
  one.store.announce(
    Array.from({ length: 500 }, (_, event) => ({ route: "log", event, at: 0, lane: 0 })),
  );
  await until("many are one route", () => heard.length === 3);
  expect(heard.slice(1)).toEqual(["crm", "log"]);
});

test("begins after the gaps that another process has passed, while a transaction is open that has written", async () => {
  await using database = await createDatabase();
  await using one = await open(database.url);
  await using session = await openSession(database.url);
  await session.rows("SELECT nextval('relay.events_seq')");
  expect(await one.store.accept(anEvent())).toMatchObject({ seq: 2 });
  await until("the gap is passed", async () => (await one.opened.horizon()) === 2);
  await until(
    "it is stored",
    async () =>
      (await session.rows("SELECT 1 FROM relay.state WHERE key = 'store/horizon'")).length === 1,
  );
  await session.rows("BEGIN");
  await session.rows("SELECT pg_current_xact_id()");
  await using two = await open(database.url);
  expect(await two.opened.horizon()).toBe(2);
});

test("wakes listeners once a gap is passed, of which nobody notifies", async () => {
  await using database = await createDatabase();
  await using one = await open(database.url);
  await using session = await openSession(database.url);
  const page = async () => (await one.store.read.listen.ends()).newest;
  await session.rows("BEGIN");
  await session.rows("SELECT pg_current_xact_id(), nextval('relay.events_seq')");
  expect(await one.store.accept(anEvent())).toMatchObject({ seq: 2 });
  for (let n = 0; n < 3; n += 1) expect(await page()).toBe(0);
  let woken = 0;
  one.store.onStored(() => {
    woken += 1;
  });
  await session.rows("ROLLBACK");
  await until("it is passed", async () => (await page()) === 2);
  await until("they are woken", () => woken > 0);
});

test("reads of one moment replace a broken connection by one", async () => {
  await using database = await createDatabase();
  const reads = createReads(
    { url: database.url, schema: "relay" },
    { refusal: () => null, lost() {} },
  );
  const pid = () =>
    reads
      .read(rows(select({ pid: typed<number>(sql`pg_backend_pid()`) })``))
      .then(([found]) => found?.pid);
  await using session = await openSession(database.url);
  await session.rows("SELECT pg_terminate_backend($1)", [await pid()]);
  // Noticed late, all fail over the broken one.
  await wait(100);
  const pids = await Promise.allSettled(Array.from({ length: 20 }, pid));
  expect(new Set(pids.map((one) => (one.status === "fulfilled" ? one.value : "failed"))).size).toBe(
    1,
  );
  await reads.close();
  const left =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'wamid-relay'";
  await until("none is left", async () => (await session.number(left)) === 0);
});

test("a read on a connection that was given up fails, and is no news of the server", async () => {
  await using database = await createDatabase();
  const lost: string[] = [];
  const reads = createReads(
    { url: database.url, schema: "relay" },
    { refusal: () => null, lost: ({ message }) => void lost.push(message) },
  );
  const one = () => rows(select({ one: typed<number>(sql`1`) })``);
  let steps = 0;
  function* withoutEnd() {
    for (;;) {
      yield* one();
      steps += 1;
    }
  }
  const given = reads.read(withoutEnd());
  given.catch(() => {});
  await until("it reads", () => steps > 0);
  reads.giveUp();
  await expect(given).rejects.toThrow("PostgreSQL cannot be used now");
  expect(lost).toEqual([]);
  expect(await reads.read(one())).toEqual([{ one: 1 }]);
  await reads.close();
});

test("the locks of a process that stands still end before others take its routes", async () => {
  await using database = await createDatabase();
  const session = await connect({ url: database.url, schema: "relay" }, "hot");
  const { rows } = await session.query({
    name: "",
    text: "SELECT setting::bigint AS ms FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'",
    values: [],
  });
  await session.end();
  expect(rows[0]?.["ms"]).toBeGreaterThan(0);
  expect(rows[0]?.["ms"]).toBeLessThan(leaseTimes.deadAfterMs);
});

test("a process whose tables are removed or replaced while in use refuses, makes none, and goes on with its own", async () => {
  await using database = await createDatabase();
  await using session = await openSession(database.url);
  await using one = await open(database.url);
  expect(await accepts(one)).toBe(true);
  await session.rows("ALTER SCHEMA relay RENAME TO kept");
  await until(
    "it reports that",
    () => one.reports.at(-1)?.includes("removed while in use") === true,
  );
  expect(await accepts(one)).toBe(false);
  expect(await session.rows("SELECT 1 FROM pg_namespace WHERE nspname = 'relay'")).toEqual([]);

  await using two = await open(database.url);
  await until(
    "it reports other data",
    () => one.reports.at(-1)?.includes("holds other data") === true,
  );
  expect([await accepts(one), await accepts(two)]).toEqual([false, true]);
  await two.store.close();

  await session.rows("DROP SCHEMA relay CASCADE");
  await session.rows("ALTER SCHEMA kept RENAME TO relay");
  await until("it stores again", () => accepts(one));
  expect(await stored(one)).toBe(2);
});

test("a stricter isolation that the database sets by default does not apply", async () => {
  await using database = await createDatabase();
  await using admin = await openSession(database.url);
  const [{ name } = { name: "" }] = await admin.rows<{ name: string }>(
    "SELECT current_database() AS name",
  );
  await admin.rows(`ALTER DATABASE ${name} SET default_transaction_isolation = 'serializable'`);
  const session = await connect({ url: database.url, schema: "relay" }, "hot");
  const { rows } = await session.query({
    name: "",
    text: "SELECT current_setting('transaction_isolation') AS level",
    values: [],
  });
  await session.end();
  expect(rows).toEqual([{ level: "read committed" }]);
});

test.for([
  [
    "another program's",
    "CREATE SCHEMA relay; CREATE TABLE relay.events (id int)",
    /not from wamid-relay/,
  ],
  [
    "a newer",
    "CREATE SCHEMA relay; CREATE TABLE relay.state (id int); COMMENT ON TABLE relay.state IS 'wamid-relay schema 99'",
    /newer/,
  ],
] as const)("refuses %s schema in one line", async ([, statements, why]) => {
  await using database = await createDatabase();
  await using session = await openSession(database.url);
  await session.rows(statements);
  await expect(open(database.url)).rejects.toThrow(why);
});

test("refuses a database that cannot hold all characters", async () => {
  await using database = await createDatabase();
  await using session = await openSession(database.url);
  const name = `latin_${randomUUID().slice(0, 8)}`;
  await session.rows(`CREATE DATABASE ${name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`);
  await expect(open(database.url.replace(/\/test_\w+/, `/${name}`))).rejects.toThrow(
    /has the encoding LATIN1, .* ENCODING 'UTF8'/,
  );
  await session.rows(`DROP DATABASE ${name}`);
});

test("refuses a missing database, a user without rights, and says where", async () => {
  await using database = await createDatabase();
  await expect(open(database.url.replace(/\/test_\w+/, "/nowhere"))).rejects.toThrow(
    /^postgres:\/\/\/nowhere\?host=.*: there is no such database/,
  );
  await using session = await openSession(database.url);
  const name = `weak_${randomUUID().slice(0, 8)}`;
  await session.rows(`CREATE ROLE ${name} LOGIN`);
  const weak = database.url.replace("relay@", `${name}:secret@`);
  await expect(open(weak)).rejects.toThrow(/the user lacks a permission/);
  const read = () => openPostgresForReading({ url: weak, schema: "relay" });
  await expect(read()).rejects.toThrow(/no store yet, and the user may not make it/);
  await session.rows(`CREATE SCHEMA relay AUTHORIZATION ${name}`);
  await expect(read()).rejects.toThrow(/no store yet; "wamid-relay serve" makes it/);
  await session.rows("DROP SCHEMA relay");
  // PostgreSQL skips a schema that the user may not use.
  await session.rows("CREATE SCHEMA relay");
  await expect(open(weak)).rejects.toThrow(/the user lacks a permission/);
  await session.rows("DROP SCHEMA relay");
  await (await open(database.url)).store.close();
  await expect(open(weak)).rejects.toThrow(/a table was not found: the user lacks a permission/);
  await session.rows(`DROP ROLE ${name}`);
});

/** Every client gets the same session of the server. */
async function openPooler(socketPath: string) {
  const server = connectTo(socketPath);
  let current: Socket | null = null;
  let greeting = Buffer.alloc(0);
  server.on("data", (answer) => {
    if (current !== null) current.write(answer);
    else greeting = Buffer.concat([greeting, answer]);
  });
  const pooler = createServer((client) => {
    client.once("data", async (startup) => {
      if (greeting.length === 0) server.write(startup);
      await until("the server is ready", () => greeting.at(-6) === "Z".charCodeAt(0));
      client.write(greeting);
      client.on("data", (sent) => {
        current = client;
        if (sent[0] !== "X".charCodeAt(0)) server.write(sent);
      });
    });
  });
  pooler.listen(0, "127.0.0.1");
  await once(pooler, "listening");
  onTestFinished(() => {
    server.destroy();
    pooler.close();
  });
  return { port: (pooler.address() as AddressInfo).port };
}

test("refuses a pooler whose clients share sessions", async () => {
  await using database = await createDatabase();
  const place = readPostgresUrl(database.url);
  const pooler = await openPooler(join(place?.host ?? "", `.s.PGSQL.${place?.port}`));
  const url = `postgres://relay@127.0.0.1:${pooler.port}/${place?.database}`;
  const refusal =
    /^postgres:.*: a connection pooler shares sessions among its clients; let it pool by session, or connect directly$/;
  await expect(open(url)).rejects.toThrow(refusal);
  await expect(openPostgresForReading({ url, schema: "relay" })).rejects.toThrow(refusal);
});

test("while events are refused, other writes do not show that storing works again", async () => {
  await using database = await createDatabase();
  await using session = await openSession(database.url);
  await using one = await open(database.url);
  await session.rows(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION USING MESSAGE = 'no space left', ERRCODE = '53100'; END $$`);
  await session.rows(
    "CREATE TRIGGER refuse BEFORE INSERT ON relay.events EXECUTE FUNCTION refuse()",
  );
  expect(await accepts(one)).toBe(false);
  await one.store.resume("crm");
  await wait(presentEveryMs + 1_000);
  expect(one.reports.at(-1)).toContain("no space left");
  await session.rows("DROP TRIGGER refuse ON relay.events");
  expect(await accepts(one)).toBe(true);
  expect(one.reports.at(-1)).toBe("stored");
});

test("a registration that took too long does not hold up the events that are stored", async () => {
  await using database = await createDatabase();
  await using session = await openSession(database.url);
  await using one = await open(database.url);
  await session.rows(`CREATE FUNCTION cancel() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION USING MESSAGE = 'statement timeout', ERRCODE = '57014'; END $$`);
  await session.rows(
    "CREATE TRIGGER cancel BEFORE INSERT ON relay.polls EXECUTE FUNCTION cancel()",
  );
  const registration = { account: "main", wamid: "w", id: "m" };
  await expect(one.store.register([registration], Date.now())).rejects.toThrow(StoreUnavailable);
  expect(one.reports.at(-1)).toContain("statement timeout");
  expect(await accepts(one)).toBe(true);
  expect(one.reports.at(-1)).toBe("stored");
});

test("stores again once a default that made its connections read-only is reset", async () => {
  await using database = await createDatabase();
  await using session = await openSession(database.url);
  const [{ name } = { name: "" }] = await session.rows<{ name: string }>(
    "SELECT current_database() AS name",
  );
  await using one = await open(database.url);
  await session.rows(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
  await session.rows(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'wamid-relay' AND datname = $1",
    [name],
  );
  await until("it is refused", () =>
    one.reports.some((text) => text.includes("read-only transaction")),
  );
  // So that no connection of those that write is opened later.
  await using locking = await openSession(database.url);
  await locking.rows("BEGIN READ WRITE");
  await locking.rows("LOCK TABLE relay.events");
  const refused = accepts(one);
  const writing =
    "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND application_name = 'wamid-relay'";
  await until("all are open", async () => (await session.number(writing, [name])) >= 3);
  await locking.rows("ROLLBACK");
  expect(await refused).toBe(false);
  await session.rows(`ALTER DATABASE ${name} RESET default_transaction_read_only`);
  await until("it stores again", () => accepts(one));
});

test("goes on after its sessions were terminated, and after the server was stopped at once and restarted", {
  tags: ["slow"],
}, async () => {
  await using server = await startPostgres({ durable: true });
  await using one = await open(server.url);
  expect(await accepts(one)).toBe(true);
  await using session = await openSession(server.url);
  await session.rows(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'wamid-relay'",
  );
  await until("it stores again", () => accepts(one));

  await server.kill("SIGQUIT");
  await until("it reports that", async () => !(await accepts(one)) && !one.store.isInPlace());
  await expectRefusedAtOnce(one);
  await server.restart();
  one.reports.length = 0;
  await until("it recovers without a command", () => one.store.isInPlace());
  expect(one.reports).toContain("stored");
  expect(await accepts(one)).toBe(true);
});

test("refuses the primary from before a failover that returns at its address, and goes on with the present one", {
  tags: ["slow"],
}, async () => {
  await using old = await startPostgres({ tcp: true });
  await using standby = await startPostgres({ tcp: true, standbyOf: old });
  const network = await openNetwork(old.port);
  await using one = await open(old.url.replace(String(old.port), String(network.port)));
  expect(await accepts(one)).toBe(true);
  await using session = await openSession(standby.url);
  await until(
    "the standby has it",
    async () =>
      (await session.number("SELECT count(*) FROM pg_class WHERE relname = 'events'")) === 1,
  );
  await old.kill("SIGKILL");
  await session.rows("SELECT pg_promote(true, 100)");
  network.lead(standby.port);
  await until("it stores on the standby", () => accepts(one));

  await old.restart();
  network.lead(old.port);
  await until("it reports the old one", () =>
    /was the primary before the one in use \(timeline 1 after 2\)/.test(one.reports.at(-1) ?? ""),
  );
  expect(await accepts(one)).toBe(false);
  await using two = await open(old.url);
  expect(await accepts(two)).toBe(true);
  expect(await accepts(one)).toBe(false);

  network.lead(standby.port);
  await until("it stores on the standby again", () => accepts(one));
});

test("starts before its server, and fails until that is there", { tags: ["slow"] }, async () => {
  await using server = await startPostgres({ tcp: true });
  await server.kill("SIGINT");
  await using one = await open(server.url);
  expect(await accepts(one)).toBe(false);
  await server.restart();
  await until("it stores", () => accepts(one));
});

test("a network that hangs costs a few seconds, then commands fail at once, and it recovers", {
  tags: ["slow"],
}, async () => {
  await using server = await startPostgres({ tcp: true });
  const network = await openNetwork(server.port);
  await using one = await open(`postgres://relay@127.0.0.1:${network.port}/postgres`);
  expect(await accepts(one)).toBe(true);
  network.cut();
  await expectAllRefused(one, 300);
  await until("it is known to be down", () => !one.store.isInPlace());
  await expectRefusedAtOnce(one);
  await network.mend();
  await until("it recovers", () => accepts(one));
});

test("a server without free connections refuses, and is used once there are some", {
  tags: ["slow"],
}, async () => {
  await using server = await startPostgres({
    settings: { max_connections: 8, superuser_reserved_connections: 0 },
  });
  const others = await Promise.all(Array.from({ length: 8 }, () => openSession(server.url)));
  await using one = await open(server.url);
  expect(await accepts(one)).toBe(false);
  for (const other of others) await other[Symbol.asyncDispose]();
  await until("it stores", () => accepts(one));
});

test("a table that is locked for long holds up commands for some seconds only", {
  tags: ["slow"],
}, async () => {
  await using database = await createDatabase();
  await using one = await open(database.url);
  expect(await accepts(one)).toBe(true);
  await using session = await openSession(database.url);
  await session.rows("BEGIN");
  await session.rows("LOCK TABLE relay.events IN ACCESS EXCLUSIVE MODE");
  await expectAllRefused(one, 1_000);
  await session.rows("ROLLBACK");
  await until("it stores", () => accepts(one));
  expect(one.reports.at(-1)).toBe("stored");
});

test("encrypts the connection, and refuses a certificate of another authority", {
  tags: ["slow"],
}, async () => {
  const [own, other] = [selfSigned(), selfSigned()];
  const folder = tempFolder();
  const files = { ssl_cert_file: join(folder, "cert.pem"), ssl_key_file: join(folder, "key.pem") };
  writeFileSync(files.ssl_cert_file, own.cert);
  writeFileSync(files.ssl_key_file, own.key, { mode: 0o600 });
  // The server runs as another user when the tests run as root.
  if (process.getuid?.() === 0)
    for (const path of [folder, ...Object.values(files)]) chownSync(path, 65_534, 65_534);
  await using server = await startPostgres({ tcp: true, settings: { ssl: "on", ...files } });
  const url = `postgres://relay@localhost:${server.port}/postgres`;
  await using one = await open(url, "relay", { ca: own.cert });
  expect(await accepts(one)).toBe(true);
  await using session = await openSession(server.url);
  const plain =
    "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'wamid-relay' AND NOT ssl";
  expect(await session.number(plain)).toBe(0);
  await expect(open(url, "relay", { ca: other.cert })).rejects.toThrow(/TLS fails/);
  await expect(open(`${url}?sslmode=require`)).rejects.toThrow(/TLS fails/);
});
