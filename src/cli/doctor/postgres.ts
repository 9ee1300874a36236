import { StoreRefused } from "../../store/port.ts";
import { leastVersion } from "../../store/postgres/schema.ts";
import { readServerFacts, type ServerFacts } from "../../store/postgres/server-facts.ts";
import { refusalOf } from "../../store/postgres/watch.ts";
import { type PostgresStorage, postgresName } from "../../store/settings.ts";
import { bytesText, type Finding, fail, ok, spanText, warn } from "./finding.ts";

const check = "postgres";

/** The PostgreSQL of `storage`: reachable, durable and fast enough. Changes nothing. */
export async function checkPostgres(storage: PostgresStorage): Promise<Finding[]> {
  const { url, schema, tls } = storage;
  const name = postgresName(storage);
  try {
    return judgePostgres(name, await readServerFacts({ url: url.reveal(), schema, tls }));
  } catch (error) {
    const refused = error instanceof StoreRefused ? error : refusalOf(error);
    const message = (refused ?? (error as Error)).message.replace(/^PostgreSQL cannot be used now: /, "");
    return [fail(check, `${name}: ${message}`, "check the URL, the network, and that the server runs")];
  }
}

/** A process has this many connections at most. */
const connectionsOfProcess = 10;
const slowMs = 50;
const toleratedSkewMs = 1_000;
const longSeconds = 300;

/** Risks of the server that stores the relay's events, and what each means for its promises. */
export function judgePostgres(name: string, facts: ServerFacts): Finding[] {
  return [judgeServer(name, facts), ...judgeDurability(facts), ...judgeLoad(facts), judgeClock(facts)];
}

function judgeServer(name: string, { version, versionText, isReplica, roundTripMs, bytes }: ServerFacts): Finding {
  const major = Math.floor(version / 10_000);
  if (major < leastVersion) return fail(check, `${name} is version ${versionText}`, `the relay needs version ${leastVersion} or newer`);
  if (isReplica) return fail(check, `${name} is a read-only replica: no event can be stored`, "give the URL the address of the primary");
  if (roundTripMs > slowMs)
    return warn(check, `${name} answers in ${roundTripMs} ms: each webhook waits for several round trips`, "run the relay near the server");
  return ok(check, `${name}, version ${versionText}, answers in ${roundTripMs} ms${bytes === null ? "" : `, ${bytesText(bytes)} stored`}`);
}

function* judgeDurability(facts: ServerFacts): Generator<Finding> {
  const durability = "postgres durability";
  const { fsync, fullPageWrites, synchronousCommit, synchronousStandbys, standbys } = facts;
  if (!fsync || !fullPageWrites) {
    const setting = fsync ? "full_page_writes" : "fsync";
    yield fail(durability, `${setting} is off: a crash of the machine may damage or lose acknowledged events`, `set ${setting} = on`);
    return;
  }
  if (synchronousCommit === "off") {
    yield fail(
      durability,
      "synchronous_commit is off: a crash may lose acknowledged events of the last moments",
      "set synchronous_commit = on",
    );
    return;
  }
  if (standbys !== null && standbys > 0 && synchronousStandbys === "") {
    const todo = "set synchronous_standby_names, or accept it: docs/how-to/run-on-several-hosts.md";
    yield warn(durability, "its standbys are asynchronous: a failover may lose acknowledged events of the last moments", todo);
    return;
  }
  yield ok(durability, synchronousStandbys === "" ? "commits wait for its disk" : `commits wait for standbys: ${synchronousStandbys}`);
}

function* judgeLoad({ connectionsLeft, longestTransaction }: ServerFacts): Generator<Finding> {
  const text = `${connectionsLeft} connections left; a relay process uses up to ${connectionsOfProcess}`;
  yield connectionsLeft < connectionsOfProcess
    ? warn("postgres connections", text, "raise max_connections, or end sessions that nobody needs")
    : ok("postgres connections", text);
  if (longestTransaction === null || longestTransaction.seconds < longSeconds) return;
  const { seconds, pid, application, state } = longestTransaction;
  yield warn(
    "postgres transactions",
    `session ${pid}${application === "" ? "" : ` of ${application}`} (${state}) has one open for ${spanText(seconds * 1000)}: ` +
      "deleted rows stay, and listeners may lag behind a gap",
    `end it: SELECT pg_terminate_backend(${pid})`,
  );
}

function judgeClock({ skewMs }: ServerFacts): Finding {
  const text = `the clock of PostgreSQL is ${spanText(skewMs)} ${skewMs < 0 ? "behind" : "ahead of"} this machine's`;
  if (Math.abs(skewMs) <= toleratedSkewMs) return ok("postgres clock", "PostgreSQL and this machine agree");
  return warn("postgres clock", `${text}; the relay uses that of PostgreSQL`, "set both by NTP");
}
