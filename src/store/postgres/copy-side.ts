import type { OpenSide } from "../copy.ts";
import { StoreRefused } from "../port.ts";
import { connect, type PostgresSettings } from "./connect.ts";
import { readPresences } from "./presence.ts";
import { checkSchema } from "./schema.ts";
import { createSessions } from "./sessions.ts";
import { refusalOf } from "./watch.ts";

/** A database as the source or the target of a copy. */
export async function openPostgresSide(settings: PostgresSettings, name: string): Promise<OpenSide> {
  try {
    const session = await connect(settings, "free");
    await checkSchema(session, settings.schema).finally(session.end);
  } catch (error) {
    const refused = refusalOf(error);
    throw refused === null ? error : new StoreRefused(`${name}: ${refused.message}`, { cause: error });
  }
  const sessions = createSessions(settings, { most: 1, purpose: "free" });
  return {
    engine: "postgres",
    name,
    read: sessions.read,
    write: (make) => sessions.transact(make),
    async refuseUsed() {
      const [relay] = (await sessions.read(readPresences())).filter(({ role }) => role !== "command");
      if (relay === undefined) return;
      throw new StoreRefused(
        `${name}: a relay uses it (process ${relay.pid} on ${relay.host}); stop it, and migrate then (one that was killed counts as running for ten seconds)`,
      );
    },
    close: sessions.close,
  };
}
