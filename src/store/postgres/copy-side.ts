import pg from "pg";
import type { CopySource, CopyTarget } from "../copy.ts";
import { faultCode, StoreRefused } from "../port.ts";
import { tables } from "../schema/tables.ts";
import type { Work } from "../sql/ops.ts";
import { connect, type PostgresSettings, type Session, unavailable } from "./connect.ts";
import { createPostgresRunner } from "./runner.ts";
import { checkReadable, checkSchema, readPresences } from "./server.ts";
import { createSessions } from "./sessions.ts";
import { placed, refusalOf } from "./watch.ts";

export async function openPostgresTarget(
  settings: PostgresSettings,
  name: string,
): Promise<CopyTarget> {
  await checked(settings, checkSchema);
  const sessions = createSessions(settings, { most: 1, purpose: "free" });
  return {
    engine: "postgres",
    name,
    read: sessions.read,
    write: (make) => sessions.transact(make),
    async refuseUsed() {
      const [relay] = (await sessions.read(readPresences())).filter(
        ({ role }) => role !== "command",
      );
      if (relay === undefined) return;
      throw new StoreRefused(
        `${name}: a relay uses it (process ${relay.pid} on ${relay.host}); stop it, and migrate then (one that was killed counts as running for ten seconds)`,
      );
    },
    close: sessions.close,
  };
}

export async function openPostgresSource(
  settings: PostgresSettings,
  name: string,
): Promise<CopySource> {
  await checked(settings, checkReadable);
  const sessions = createSessions(settings, { most: 1, purpose: "free" });
  let frozen: Session | null = null;

  /**
   * The transaction that keeps relays from writing also reads, or the server would end it as idle.
   */
  async function readFrozen<T>(session: Session, work: Work<T>): Promise<T> {
    return createPostgresRunner(session)
      .execute(work)
      .catch((error: unknown) => {
        throw unavailable(error);
      });
  }

  return {
    engine: "postgres",
    name,
    read: (work) => (frozen === null ? sessions.read(work) : readFrozen(frozen, work)),
    async freeze(mark, refusal) {
      const session = await connect(settings, "free");
      frozen = session;
      for (let tries = 1; !(await lockTables(session, mark, refusal)); tries += 1)
        if (tries === mostTries)
          throw new StoreRefused(
            `${name}: long transactions write to it; see them with "wamid-relay doctor"`,
          );
      return {
        end: () =>
          session.script("COMMIT").catch((error: unknown) => Promise.reject(unavailable(error))),
      };
    },
    async close() {
      await frozen?.end();
      await sessions.close();
    },
  };
}

const mostTries = 5;

/**
 * Begins a transaction with the mark, and with triggers whose locks keep writers waiting until it
 * ends. False: a writer was in the way for too long.
 */
async function lockTables(
  session: Session,
  mark: () => Work<void>,
  refusal: string,
): Promise<boolean> {
  // Relays treat this code as a server that only reads, and with a hint as a store that is lost to
  // them.
  const body = `BEGIN RAISE EXCEPTION USING MESSAGE = ${pg.escapeLiteral(`the store ${refusal}`)}, HINT = 'moved', ERRCODE = '25006'; END`;
  const triggers = tables.map(
    ({ name }) =>
      `CREATE TRIGGER moved BEFORE INSERT OR UPDATE OR DELETE ON ${name} FOR EACH STATEMENT EXECUTE FUNCTION refuse_moved()`,
  );
  try {
    await session.script("BEGIN");
    await createPostgresRunner(session).execute(mark());
    const refuse = `CREATE FUNCTION refuse_moved() RETURNS trigger LANGUAGE plpgsql AS ${pg.escapeLiteral(body)}`;
    await session.script([refuse, ...triggers].join(";\n"));
    return true;
  } catch (error) {
    await session.script("ROLLBACK").catch(() => {});
    if (error instanceof StoreRefused) throw error;
    if (["40P01", "55P03"].includes(faultCode(error))) return false;
    throw unavailable(error);
  }
}

async function checked(
  settings: PostgresSettings,
  check: (session: Session, schema: string) => Promise<void>,
): Promise<void> {
  try {
    const session = await connect(settings, "free");
    await check(session, settings.schema).finally(session.end);
  } catch (error) {
    throw placed(refusalOf(error) ?? error, settings);
  }
}
