import { randomUUID } from "node:crypto";
import pg from "pg";
import { StoreMissing, StoreRefused } from "../port.ts";
import { ddl, schemaVersion } from "../schema/ddl.ts";
import { tables } from "../schema/tables.ts";
import type { Session } from "./connect.ts";

/** The oldest version of PostgreSQL that the tests run on. */
export const leastVersion = 14;

/** A comment of a table marks the schema as ours: the user who created the table may always write it. */
const markOf = (version: number): string => `wamid-relay schema ${version}`;
const mark = /^wamid-relay schema (\d+)$/;

/**
 * Creates the tables in a new schema, and checks those of an existing one. Processes that start at once do this one after
 * the other. Throws {@link StoreRefused} for a server that is too old, and for tables of another program or version.
 */
export async function checkSchema(session: Session, schema: string): Promise<void> {
  await checkVersion(session);
  if (await isOurs(session, schema)) return;
  const name = pg.escapeLiteral(schema);
  await session.script(`BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('wamid-relay', 0))`);
  try {
    if (!(await isOurs(session, schema))) {
      const found = await one<{ n: number }>(session, `SELECT count(*) AS n FROM pg_namespace WHERE nspname = ${name}`);
      // A user who may not create schemas may get an empty one.
      if (found.n === 0) await session.script(`CREATE SCHEMA ${pg.escapeIdentifier(schema)}`);
      const marked = `COMMENT ON TABLE state IS '${markOf(schemaVersion)}'`;
      const named = `INSERT INTO state (key, value, version) VALUES ('store/id', '${JSON.stringify(randomUUID())}', 1)`;
      await session.script([...ddl("postgres"), marked, named].join(";\n"));
    }
    await session.script("COMMIT");
  } catch (error) {
    await session.script("ROLLBACK").catch(() => {});
    throw error;
  }
}

/** The same check for readers, which create nothing. */
export async function checkReadable(session: Session, schema: string): Promise<void> {
  await checkVersion(session);
  if (!(await isOurs(session, schema))) throw new StoreMissing(`schema ${schema}: there is no store yet; "wamid-relay serve" makes it`);
}

async function checkVersion(session: Session): Promise<void> {
  const { version } = await one<{ version: number }>(session, "SELECT current_setting('server_version_num')::bigint AS version");
  const major = Math.floor(version / 10_000);
  if (major < leastVersion) throw new StoreRefused(`is PostgreSQL ${major}, and the relay needs ${leastVersion} or newer`);
}

/** False: the schema is missing, or has none of our tables. */
async function isOurs(session: Session, schema: string): Promise<boolean> {
  const names = tables.map(({ name }) => pg.escapeLiteral(name)).join(", ");
  const found = await session.query({
    name: "",
    text: `SELECT c.relname AS name, obj_description(c.oid, 'pg_class') AS mark FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm') AND c.relname IN (${names})`,
    values: [schema],
  });
  if (found.rows.length === 0) return false;
  const text = found.rows.find((row) => row["name"] === "state")?.["mark"];
  const version = Number(mark.exec(typeof text === "string" ? text : "")?.[1] ?? 0);
  if (version === schemaVersion) return true;
  const tell = (what: string): never => {
    throw new StoreRefused(`schema ${schema}: ${what}`);
  };
  if (version === 0) return tell("its tables are not from wamid-relay; give storage.schema another name");
  if (version > schemaVersion)
    return tell(`written by a newer wamid-relay (schema ${version}, this version knows ${schemaVersion}); upgrade this process`);
  return tell(`written by an older wamid-relay (schema ${version}, this version needs ${schemaVersion}); give storage.schema another name`);
}

async function one<Row>(session: Session, text: string): Promise<Row> {
  const { rows } = await session.query({ name: "", text, values: [] });
  return rows[0] as Row;
}
