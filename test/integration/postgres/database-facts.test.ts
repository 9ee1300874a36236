import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { openPostgresForReading } from "../../../src/store/postgres/open.ts";
import { openSession } from "../../harness/postgres-session.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { until } from "../../harness/until.ts";
import { createDatabase } from "../../setup/database.ts";
import { startPostgres } from "../../setup/postgres.ts";
import { runOn } from "../cli/run-cli.ts";

interface Overview {
  readonly attention: readonly {
    readonly kind: string;
    readonly severity: string;
    readonly text: string;
  }[];
}
interface Checked {
  readonly checks: readonly {
    readonly check: string;
    readonly level: string;
    readonly message: string;
  }[];
}

test("the relay reports the risks of its database, and doctor prints them, also when no relay runs", async () => {
  await using server = await startPostgres({ settings: { max_connections: 20 } });
  const storage = { driver: "postgres", url: server.url, path: undefined };
  const relay = await startRelayHere({ settings: { storage } });
  await using writing = await openSession(server.url);
  await using reading = await openSession(server.url);
  // However few the relay uses at the moment.
  await using _one = await openSession(server.url);
  await using _another = await openSession(server.url);
  await using _third = await openSession(server.url);
  await reading.rows("BEGIN");
  await reading.rows("SELECT 1");
  await writing.rows("BEGIN");
  await writing.rows("SELECT pg_current_xact_id()");

  const { attention } = (await relay.ask("/v1/overview")).body as Overview;
  const texts = attention.map(({ text }) => text);
  const [unsafe, unwritten, strained] = [
    "fsync is off",
    "full_page_writes is off",
    "connections left",
  ].map((part) => texts.find((text) => text.includes(part)));
  expect([unsafe, unwritten, strained]).not.toContain(undefined);

  const facts = await openPostgresForReading({ url: server.url, schema: "relay" });
  // The session of the writing transaction, though the other one is older.
  expect(await facts.database()).toMatchObject({
    transaction: { pid: writing.pid, hasWritten: true, state: "idle in transaction" },
  });
  await facts.close();

  const checked = async () =>
    (JSON.parse((await runOn(relay, "doctor", "--json", "--offline")).out) as Checked).checks;
  const found = await checked();
  expect(found).toContainEqual(
    expect.objectContaining({ check: "database-unsafe", level: "fail", message: unsafe }),
  );
  expect(found).toContainEqual(
    expect.objectContaining({
      check: "postgres",
      level: "ok",
      message: expect.stringContaining("version 18"),
    }),
  );
  await relay.stop();
  expect(await checked()).toContainEqual(
    expect.objectContaining({ check: "database-unsafe", level: "fail", message: unsafe }),
  );
});

test("doctor reports a standby as a server that cannot store", async () => {
  await using primary = await startPostgres({ durable: true });
  const url = (of: { readonly url: string }) => ({
    driver: "postgres",
    url: of.url,
    path: undefined,
  });
  const relay = await startRelayHere({ settings: { storage: url(primary) } });
  await using standby = await startPostgres({ standbyOf: primary });
  await relay.stop();
  relay.writeSettings({ storage: url(standby) });
  const { out } = await runOn(relay, "doctor", "--json", "--offline");
  expect((JSON.parse(out) as Checked).checks).toContainEqual(
    expect.objectContaining({
      check: "postgres",
      level: "fail",
      message: expect.stringContaining("read-only standby"),
    }),
  );
});

test("doctor reports a server that refuses writes, and does not take its relay for another one", async () => {
  await using server = await startPostgres();
  const relay = await startRelayHere({
    settings: { storage: { driver: "postgres", url: server.url, path: undefined } },
  });
  await using session = await openSession(server.url);
  await session.rows("ALTER SYSTEM SET default_transaction_read_only = on");
  await session.rows("SELECT pg_reload_conf()");
  await until(
    "the relay cannot write",
    async () => ((await relay.ask("/readyz")).body as { store: string }).store === "failing",
  );
  await session.rows("BEGIN READ WRITE");
  await session.rows("DELETE FROM relay.state WHERE key LIKE 'process/%'");
  await session.rows("COMMIT");
  const { checks } = JSON.parse(
    (await runOn(relay, "doctor", "--json", "--offline")).out,
  ) as Checked;
  expect(checks).toContainEqual(
    expect.objectContaining({
      check: "postgres",
      message: expect.stringContaining("refuses writes"),
    }),
  );
  expect(checks).toContainEqual(
    expect.objectContaining({ check: "relay", message: expect.stringContaining("not ready at") }),
  );
});

test("doctor reports a user who may not use the tables as a failed check", async () => {
  await using database = await createDatabase();
  const relay = await startRelayHere({
    settings: { storage: { driver: "postgres", url: database.url, path: undefined } },
  });
  await relay.stop();
  await using session = await openSession(database.url);
  const name = `weak_${randomUUID().slice(0, 8)}`;
  await session.rows(`CREATE ROLE ${name} LOGIN`);
  relay.writeSettings({
    storage: {
      driver: "postgres",
      url: database.url.replace("relay@", `${name}@`),
      path: undefined,
    },
  });
  const checked = async () =>
    (JSON.parse((await runOn(relay, "doctor", "--json", "--offline")).out) as Checked).checks;
  const lacking = expect.objectContaining({
    check: "store",
    level: "fail",
    message: expect.stringContaining("lacks a permission"),
  });
  expect(await checked()).toContainEqual(lacking);
  await session.rows(`GRANT USAGE ON SCHEMA relay TO ${name}`);
  expect(await checked()).toContainEqual(lacking);
  await session.rows(`DROP OWNED BY ${name}`);
  await session.rows(`DROP ROLE ${name}`);
});
