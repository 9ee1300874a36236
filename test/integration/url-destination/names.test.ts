// Slow: it blocks the thread pool with DNS lookups.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  createNameLookup,
  lookUpName,
  type NameLookupParts,
} from "../../../src/net/name-lookup.ts";
import { postAlert } from "../../../src/observe/health.ts";
import { withBusyThreads } from "../../harness/busy-threads.ts";
import { type DnsName, startDnsServer } from "../../harness/dns-server.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { until } from "../../harness/until.ts";
import { noRetry, openClient } from "../service/client/open-client.ts";
import { attempt, destinationTo, told } from "./attempt.ts";
import { startHttp } from "./downstream.ts";

const silent: DnsName = { silent: ["A", "AAAA"] };
const noSystem = () => Promise.reject(Object.assign(new Error("not asked"), { code: "ENOTFOUND" }));

/** A slow machine repeats queries, so tests count no questions. `names` may change. */
async function lookupAt(
  names: Readonly<Record<string, DnsName>>,
  parts: NameLookupParts & { hosts?: string } = {},
) {
  const hostsFile = join(tempFolder(), "hosts");
  writeFileSync(hostsFile, parts.hosts ?? "");
  const { address, questions } = await startDnsServer(names);
  return {
    lookUp: createNameLookup({
      servers: [address],
      hostsFile,
      system: noSystem,
      withinMs: 60_000,
      ...parts,
    }),
    questions,
    hostsFile,
  };
}

test("names that no server answers for do not delay a healthy destination without keep-alive", async () => {
  const silentNames = Array.from({ length: 12 }, (_, index) => `silent${index}.example`);
  const { lookUp } = await lookupAt(
    {
      "healthy.example": { A: ["127.0.0.1"], ttl: 0 },
      ...Object.fromEntries(silentNames.map((name) => [name, silent])),
    },
    { withinMs: 60_000 },
  );
  const downstream = await startHttp((_request, response) =>
    response.writeHead(200, { connection: "close" }).end(),
  );
  const connector = { allowPrivate: true, lookup: lookUp };
  let ended = 0;
  const silentOnes = silentNames.map((name) =>
    destinationTo(`http://${name}/`, { timeout: "1m" }, connector),
  );
  const waiting = silentOnes.flatMap((destination) =>
    Array.from({ length: 4 }, () => attempt(destination).finally(() => (ended += 1))),
  );
  const healthy = destinationTo(`http://healthy.example:${downstream.port}/`, {}, connector);
  for (let n = 0; n < 50; n += 1) expect(told(await attempt(healthy))).toBe("200");
  expect(downstream.accepted).toBe(50);
  expect(ended).toBe(0);
  await Promise.all(silentOnes.map((destination) => destination.close()));
  await Promise.all(waiting);
});

describe("while all four threads of the pool are blocked", () => {
  test("reaches a destination by name", async () => {
    const downstream = await startHttp((_request, response) => response.end());
    const outcome = await withBusyThreads(() =>
      attempt(destinationTo(`http://localhost:${downstream.port}/`)),
    );
    expect(told(outcome)).toBe("200");
  });

  test("reaches the service by name", async () => {
    const downstream = await startHttp((_request, response) => response.writeHead(401).end("{}"));
    const { client } = openClient(`http://localhost:${downstream.port}`, { retry: noRetry });
    await withBusyThreads(() => client.me().catch(() => {}));
    expect(downstream.seen).toHaveLength(1);
  });

  test("posts an alert to a name", async () => {
    const downstream = await startHttp((_request, response) => response.end());
    await withBusyThreads(() => postAlert(`http://localhost:${downstream.port}/`, "{}"));
    expect(downstream.seen).toHaveLength(1);
  });
});

describe("a lookup", () => {
  test("without any answer fails with ETIMEOUT, and the destination with dns", async () => {
    const { lookUp } = await lookupAt({ "silent.example": silent }, { withinMs: 50 });
    await expect(lookUp("silent.example")).rejects.toMatchObject({ code: "ETIMEOUT" });
    const destination = destinationTo(
      "http://silent.example/",
      {},
      { allowPrivate: true, lookup: lookUp },
    );
    expect(told(await attempt(destination))).toBe(
      "failed dns: silent.example does not resolve (the name servers do not answer)",
    );
  });

  test("retries after a lost packet, and waits for a slow server", async () => {
    const { lookUp, questions } = await lookupAt(
      {
        "lost.example": { A: ["192.0.2.1"], ignores: 1 },
        "slow.example": { A: ["192.0.2.2"], afterMs: 1_500 },
      },
      { withinMs: 60_000 },
    );
    const [lost, slow] = await Promise.all([lookUp("lost.example"), lookUp("slow.example")]);
    expect([lost, slow].map(([first]) => first?.address)).toEqual(["192.0.2.1", "192.0.2.2"]);
    expect(
      questions.filter((question) => question === "A lost.example").length,
    ).toBeGreaterThanOrEqual(2);
  });

  test("queries another server when the first is silent", async () => {
    const mute = await startDnsServer({ "one.example": silent });
    const good = await startDnsServer({ "one.example": { A: ["192.0.2.1"] } });
    const lookUp = createNameLookup({
      servers: [mute.address, good.address],
      system: noSystem,
      withinMs: 60_000,
    });
    expect((await lookUp("one.example."))[0]?.address).toBe("192.0.2.1");
    expect(mute.questions).not.toEqual([]);
  });

  test("is shared by concurrent callers", async () => {
    const { lookUp, questions } = await lookupAt({ "one.example": { A: ["192.0.2.1"] } });
    await Promise.all(Array.from({ length: 100 }, () => lookUp("one.example")));
    expect(new Set(questions)).toEqual(new Set(["A one.example", "AAAA one.example"]));
    // One query, and the one that may follow it.
    expect(questions.length).toBeLessThanOrEqual(4);
  });

  test.each([
    ["its TTL", 30, 30_000],
    ["a second, however short the TTL", 0, 1_000],
    ["a minute, however long the TTL", 2_000_000_000, 60_000],
  ])("is kept for %s", async (_what, ttl, keptMs) => {
    let now = 0;
    const names: Record<string, DnsName> = { "kept.example": { A: ["192.0.2.1"], ttl } };
    const { lookUp } = await lookupAt(names, { now: () => now });
    const address = async () => (await lookUp("kept.example"))[0]?.address;
    expect(await address()).toBe("192.0.2.1");
    names["kept.example"] = { A: ["192.0.2.2"], ttl };
    now = keptMs - 1;
    expect(await address()).toBe("192.0.2.1");
    now = keptMs;
    expect(await address()).toBe("192.0.2.2");
  });

  test("returns at most 16 addresses", async () => {
    const many = Array.from({ length: 25 }, (_, index) => `192.0.2.${index}`);
    const { lookUp } = await lookupAt({ "many.example": { A: many } });
    expect(await lookUp("many.example")).toHaveLength(16);
  });

  test("returns both families, IPv4 first", async () => {
    // The IPv4 answer comes last, because the other one has a quarter of a second after it.
    const both = {
      A: ["192.0.2.1"],
      AAAA: ["2001:0db8:0000:0000:0000:0000:0000:0001"],
      afterMs: { A: 20, AAAA: 0 },
    };
    const { lookUp } = await lookupAt({ "both.example": both });
    expect(await lookUp("both.example")).toEqual([
      { address: "192.0.2.1", family: 4 },
      { address: "2001:db8::1", family: 6 },
    ]);
  });

  test("does not wait for an IPv6 answer that never comes", async () => {
    const { lookUp } = await lookupAt(
      { "half.example": { A: ["192.0.2.1"], silent: ["AAAA"] } },
      { withinMs: 600_000 },
    );
    expect(await lookUp("half.example")).toEqual([{ address: "192.0.2.1", family: 4 }]);
  });

  test("reads the hosts file before DNS, and its changes at once", async () => {
    const hosts =
      "# comment\n192.0.2.7 Pinned.example other # no.example\n192.0.2.8 pinned.example\nnonsense pinned.example\n";
    const { lookUp, questions, hostsFile } = await lookupAt(
      { "pinned.example": { A: ["192.0.2.1"] } },
      { hosts },
    );
    expect((await lookUp("PINNED.example.")).map(({ address }) => address)).toEqual([
      "192.0.2.7",
      "192.0.2.8",
    ]);
    expect(questions).toEqual([]);
    writeFileSync(hostsFile, "192.0.2.99 pinned.example\n");
    expect((await lookUp("pinned.example")).map(({ address }) => address)).toEqual(["192.0.2.99"]);
    writeFileSync(hostsFile, "");
    expect((await lookUp("pinned.example")).map(({ address }) => address)).toEqual(["192.0.2.1"]);
  });

  test("needs no server for localhost, names under it, and .invalid", async () => {
    const { lookUp, questions } = await lookupAt({ localhost: { A: ["192.0.2.1"] } });
    const loopback = [
      { address: "127.0.0.1", family: 4 },
      { address: "::1", family: 6 },
    ];
    expect(await lookUp("localhost")).toEqual(loopback);
    expect(await lookUp("crm.localhost")).toEqual(loopback);
    await expect(lookUp("crm.invalid")).rejects.toMatchObject({ code: "ENOTFOUND" });
    expect(questions).toEqual([]);
  });
});

describe("the system's own lookup", () => {
  test("is used for a name that DNS does not have", async () => {
    const system = async (name: string) => [
      { address: name === "printer.local" ? "192.0.2.50" : "192.0.2.51", family: 4 },
    ];
    const { lookUp } = await lookupAt({}, { system });
    expect(await lookUp("printer.local")).toEqual([{ address: "192.0.2.50", family: 4 }]);
  });

  test.each<[string, DnsName | undefined]>([
    ["crm.default", undefined],
    ["crm", { code: "SERVFAIL" }],
    ["crm", undefined],
  ])("completes %s by its search list, as Kubernetes needs it, after %j", async (short, known) => {
    const asked: string[] = [];
    const system = async (name: string) => {
      asked.push(name);
      return [{ address: "10.0.0.7", family: 4 }];
    };
    const { lookUp } = await lookupAt(known === undefined ? {} : { [short]: known }, { system });
    expect(await lookUp(short)).toEqual([{ address: "10.0.0.7", family: 4 }]);
    expect(asked).toEqual([short]);
  });

  test("is used where no name server listens", async () => {
    const lookUp = createNameLookup({
      servers: ["127.0.0.1:9"],
      hostsFile: "/nonexistent",
      system: async () => [{ address: "192.0.2.50", family: 4 }],
      withinMs: 60_000,
    });
    expect(await lookUp("printer.local")).toEqual([{ address: "192.0.2.50", family: 4 }]);
  });

  test.each<[string, DnsName]>([
    ["fails", { code: "SERVFAIL" }],
    ["does not answer", silent],
  ])("is not asked when the server %s", async (_what, known) => {
    let asked = 0;
    const system = () => {
      asked += 1;
      return noSystem();
    };
    const { lookUp } = await lookupAt({ "bad.example": known }, { system, withinMs: 100 });
    await expect(lookUp("bad.example")).rejects.toThrow();
    expect(asked).toBe(0);
  });

  test("holds at most two threads, and waiting callers time out", async () => {
    let running = 0;
    let most = 0;
    const release = Promise.withResolvers<void>();
    const system = async () => {
      running += 1;
      most = Math.max(most, running);
      await release.promise;
      running -= 1;
      return [{ address: "192.0.2.50", family: 4 }];
    };
    const { lookUp } = await lookupAt({}, { system, withinMs: 1_000 });
    // A slow machine may not get as far as the system before the deadline.
    await until("both threads are held", async () => {
      const outcomes = await Promise.allSettled(
        Array.from({ length: 10 }, (_, index) => lookUp(`hangs${index}.local`)),
      );
      expect(outcomes.map(({ status }) => status)).toEqual(Array(10).fill("rejected"));
      return running >= 2;
    });
    expect([running, most]).toEqual([2, 2]);
    release.resolve();
    await until("both have ended", () => running === 0);
    expect(await lookUp("later.local")).toEqual([{ address: "192.0.2.50", family: 4 }]);
  });
});

test("an address resolves to itself", async () => {
  expect(await lookUpName("192.0.2.1")).toEqual([{ address: "192.0.2.1", family: 4 }]);
});
