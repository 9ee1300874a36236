import { getDefaultResultOrder, type LookupAddress, promises, type RecordWithTtl } from "node:dns";
import { readFileSync, statSync } from "node:fs";
import { isIP, type LookupFunction } from "node:net";
import { setTimeout as wait } from "node:timers/promises";

/** At least one address. Rejects with an error that has a `code`. */
export type LookupAll = (name: string) => Promise<LookupAddress[]>;

export interface NameLookupParts {
  readonly servers?: readonly string[];
  readonly hostsFile?: string;
  readonly system?: LookupAll;
  readonly now?: () => number;
  readonly withinMs?: number;
}

const defaultWithinMs = 5_000;

/**
 * A packet may be lost. c-ares queries the next server then, and drops a late answer to the first
 * query.
 */
const queryAgain = { timeout: 2_000, tries: 2 };

/** Some name servers never answer AAAA. */
const ipv6GraceMs = 250;

/** A changed address takes effect within a minute. */
const shortestTtlMs = 1_000;
const longestTtlMs = 60_000;

/** The system's lookup returns no TTL. */
const systemTtlMs = 10_000;

const mostAddresses = 16;

/**
 * While a name server is silent, getaddrinfo blocks one of the four threads that file access
 * shares.
 */
const systemLookupsAtOnce = 2;

const loopback: readonly LookupAddress[] = [
  { address: "127.0.0.1", family: 4 },
  { address: "::1", family: 6 },
];

/** The system may still find the name then (search list, mDNS, LDAP, the machine's own name). */
const systemAfter = new Set(["ENOTFOUND", "ENODATA", "ECONNREFUSED"]);

interface Answer {
  readonly addresses: LookupAddress[];
  readonly ttlMs: number;
}

/**
 * A silent name server delays only the names it serves. The hosts file is checked for each lookup,
 * so that changes take effect.
 */
export function createNameLookup(parts: NameLookupParts = {}): LookupAll {
  const { servers, hostsFile = "/etc/hosts", now = () => performance.now() } = parts;
  const {
    system = (name: string) => promises.lookup(name, { all: true }),
    withinMs = defaultWithinMs,
  } = parts;
  const hosts = createHosts(hostsFile);
  /** Also those that are pending. */
  const known = new Map<string, { readonly answer: Promise<Answer>; until: number }>();
  const systemSlots = createSlots(systemLookupsAtOnce);

  async function lookUp(name: string): Promise<Answer> {
    const abort = new AbortController();
    const { promise: late, reject } = Promise.withResolvers<never>();
    const deadline = setTimeout(() => {
      reject(failure("ETIMEOUT", `no answer from the name servers within ${withinMs / 1000} s`));
      abort.abort();
    }, withinMs);
    try {
      const { addresses, ttlMs } = await Promise.race([answerOf(name, abort.signal), late]);
      return { addresses: inOrder(addresses).slice(0, mostAddresses), ttlMs };
    } finally {
      clearTimeout(deadline);
    }
  }

  async function answerOf(name: string, signal: AbortSignal): Promise<Answer> {
    try {
      return await queryServers(name, signal);
    } catch (error) {
      // Without a dot, a name is complete only with the search list.
      if (signal.aborted || !(systemAfter.has(codeOf(error)) || !name.includes("."))) throw error;
    }
    const addresses = await systemSlots.run(signal, () => system(name));
    if (addresses.length === 0) throw failure("ENODATA", `${name} has no address`);
    return { addresses, ttlMs: systemTtlMs };
  }

  async function queryServers(name: string, signal: AbortSignal): Promise<Answer> {
    // It has the system's servers of now, and is cancelled alone.
    const resolver = new promises.Resolver(queryAgain);
    if (servers !== undefined) resolver.setServers(servers);
    signal.addEventListener("abort", () => resolver.cancel());
    return await queryBoth(resolver, name.replace(/\.$/, ""));
  }

  return async (given) => {
    const name = given.toLowerCase();
    const family = isIP(name);
    if (family !== 0) return [{ address: name, family }];
    const bare = name.replace(/\.$/, "");
    const fromFile = hosts(bare);
    if (fromFile.length > 0) return inOrder(fromFile).slice(0, mostAddresses);
    // RFC 6761: these never go to a name server.
    if (bare === "localhost" || bare.endsWith(".localhost")) return inOrder(loopback);
    if (bare.endsWith(".invalid")) throw failure("ENOTFOUND", `${name} is no name by definition`);
    const entry = known.get(name);
    if (entry !== undefined && entry.until > now()) return (await entry.answer).addresses;
    const looked = { answer: lookUp(name), until: Number.POSITIVE_INFINITY };
    known.set(name, looked);
    const { addresses, ttlMs } = await looked.answer.catch((error: unknown) => {
      known.delete(name);
      throw error;
    });
    looked.until = now() + Math.min(Math.max(ttlMs, shortestTtlMs), longestTtlMs);
    return addresses;
  };
}

/** All connections share its cache. */
export const lookUpName: LookupAll = createNameLookup();

export function lookupFunction(lookup: LookupAll = lookUpName): LookupFunction {
  return (name, { all, family }, callback) => {
    const isWanted = (address: LookupAddress) =>
      (family !== 4 && family !== 6) || address.family === family;
    lookup(name).then(
      (found) => {
        const addresses = found.filter(isWanted);
        const [first] = addresses;
        if (first === undefined)
          callback(failure("ENOTFOUND", `${name} has no address of family ${family}`), "");
        else if (all === true) callback(null, addresses);
        else callback(null, first.address, first.family);
      },
      (error: NodeJS.ErrnoException) => callback(error, ""),
    );
  };
}

async function queryBoth(resolver: promises.Resolver, name: string): Promise<Answer> {
  const four = settled(resolver.resolve4(name, { ttl: true }), 4);
  const six = settled(resolver.resolve6(name, { ttl: true }), 6);
  const first = await four;
  const second =
    first instanceof Error
      ? await six
      : await Promise.race([six, wait(ipv6GraceMs, null, { ref: false })]);
  const answers = [first, second].filter(
    (answer): answer is Answer => answer !== null && !(answer instanceof Error),
  );
  if (answers.length > 0) {
    return {
      addresses: answers.flatMap(({ addresses }) => addresses),
      ttlMs: Math.min(...answers.map(({ ttlMs }) => ttlMs)),
    };
  }
  throw [first, second].find((error) => error instanceof Error && !isUnknown(error)) ?? first;
}

const isUnknown = (error: Error): boolean =>
  ["ENOTFOUND", "ENODATA", "ESERVFAIL"].includes(codeOf(error));

async function settled(query: Promise<RecordWithTtl[]>, family: 4 | 6): Promise<Answer | Error> {
  try {
    const records = await query;
    if (records.length === 0) return failure("ENODATA", "no address");
    return {
      addresses: records.map(({ address }) => ({ address, family })),
      ttlMs: Math.min(...records.map(({ ttl }) => ttl)) * 1000,
    };
  } catch (error) {
    return error as Error;
  }
}

/** Not every host with an IPv6 address can reach others by it. */
function inOrder(addresses: readonly LookupAddress[]): LookupAddress[] {
  const first = getDefaultResultOrder() === "ipv6first" ? 6 : 4;
  return [...addresses].sort((a, b) => Number(b.family === first) - Number(a.family === first));
}

function createHosts(path: string): (name: string) => readonly LookupAddress[] {
  let version = "";
  let hosts = new Map<string, LookupAddress[]>();
  return (name) => {
    const stat = statSync(path, { throwIfNoEntry: false });
    const seen = stat === undefined ? "" : `${stat.ino} ${stat.size} ${stat.mtimeMs}`;
    if (seen !== version) {
      version = seen;
      hosts = parseHosts(readText(path));
    }
    return hosts.get(name) ?? [];
  };
}

function parseHosts(text: string): Map<string, LookupAddress[]> {
  const hosts = new Map<string, LookupAddress[]>();
  for (const line of text.split("\n")) {
    const [address = "", ...names] = line.replace(/#.*/, "").trim().split(/\s+/);
    const family = isIP(address);
    if (family === 0) continue;
    for (const name of names) {
      const key = name.toLowerCase();
      hosts.set(key, [...(hosts.get(key) ?? []), { address, family }]);
    }
  }
  return hosts;
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** In order, without those aborted while they waited. */
function createSlots(limit: number) {
  let running = 0;
  const waiting: (() => void)[] = [];
  return {
    async run<T>(signal: AbortSignal, task: () => Promise<T>): Promise<T> {
      if (running >= limit) await new Promise<void>((resolve) => waiting.push(resolve));
      else running += 1;
      try {
        if (signal.aborted) throw failure("ECANCELLED", "cancelled");
        return await task();
      } finally {
        const next = waiting.shift();
        if (next === undefined) running -= 1;
        else next();
      }
    },
  };
}

function failure(code: string, message: string): NodeJS.ErrnoException {
  return Object.assign(new Error(message), { code });
}

function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : "";
}
