// @module-tag slow: it kills the relay at each stage of a send.
import { setTimeout as wait } from "node:timers/promises";
import Database from "better-sqlite3";
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { createRandom } from "../../src/sandbox/ids.ts";
import { type Happening, type Sandbox, startSandbox } from "../../src/sandbox/start-sandbox.ts";
import { makeRelay, type RelayProcess } from "../harness/relay-process.ts";
import { relayToken } from "../harness/relay-settings.ts";
import { usageOf } from "../harness/sandbox-usage.ts";
import { soakSize } from "../harness/soak.ts";
import { until } from "../harness/until.ts";
import { testSeed as seed } from "../setup/seed.ts";

const phone = "+5491155550100";

interface Pair {
  readonly sandbox: Sandbox;
  readonly relay: RelayProcess;
  /** Called when the service has made a message, before its answer leaves. */
  whenMade: (() => void) | null;
  /** The text of a message is its key. Null: no answer. */
  send(key: string, query?: string): Promise<{ status: number; body: SendBody } | null>;
  /** Messages at the service, by key. */
  made(key: string): number;
  /** Ends both, and keeps the relay's folder when asked to. */
  dispose(keep?: boolean): Promise<void>;
}

interface SendBody {
  readonly code?: string;
  readonly wamid?: string;
  readonly id?: string;
  readonly stored?: boolean;
  readonly details?: { readonly justNow: boolean; readonly resend: number };
}

/** The same for one test, disposed of at its end. */
async function startPair(account: object = {}): Promise<Pair> {
  const pair = await openPair(account);
  onTestFinished(({ task }) => pair.dispose(task.result?.state === "fail"));
  return pair;
}

/** A real relay process, with a sandbox in this process as its messaging service. */
async function openPair(account: object = {}): Promise<Pair> {
  const pair = { whenMade: null as (() => void) | null };
  const onHappening = (happening: Happening) => {
    if (
      happening.what === "message" &&
      happening.message.origin === "api" &&
      happening.message.status === "pending"
    )
      pair.whenMade?.();
  };
  const sandbox = await startSandbox({ plan: "enterprise", isUnlimited: true, onHappening });
  sandbox.customerWrites(phone, "Hola");
  const relay = await makeRelay({
    settings: {
      accounts: {
        main: {
          baseUrl: sandbox.url,
          apiKey: sandbox.key,
          plan: "enterprise",
          share: 1,
          ...account,
        },
      },
    },
  });
  await relay.start();
  return Object.assign(pair, {
    sandbox,
    relay,
    async send(key: string, query = "") {
      try {
        const answer = await fetch(`${relay.url}/v1/messages${query}`, {
          method: "POST",
          headers: {
            authorization: `Bearer ${relayToken}`,
            "content-type": "application/json",
            "idempotency-key": key,
          },
          body: JSON.stringify({ to: phone, text: key }),
        });
        return { status: answer.status, body: (await answer.json()) as SendBody };
      } catch {
        return null;
      }
    },
    made: (key: string) =>
      sandbox.messages().filter(({ origin, text }) => origin === "api" && text === key).length,
    async dispose(keep = false) {
      await relay.dispose(keep);
      await sandbox.close();
    },
  });
}

/**
 * Takes the file's write lock, so that the relay cannot commit; gives what lets go of it.
 * Synchronous.
 */
function holdStore(path: string): () => void {
  const db = new Database(path, { timeout: 60_000 });
  db.exec("BEGIN IMMEDIATE");
  const release = () => db.open && db.close();
  onTestFinished(() => void release());
  return release;
}

/**
 * What must hold after any end of the process: the key tells the truth, nothing is sent by itself,
 * and a person can settle it.
 */
async function expectUnknownThenSettled(pair: Pair, key: string, made: 0 | 1): Promise<void> {
  for (let n = 0; n < 2; n++) {
    expect(await pair.send(key)).toMatchObject({
      status: 409,
      body: { code: "outcome_unknown", details: { justNow: false, resend: 1 } },
    });
  }
  expect(pair.made(key)).toBe(made);
  const resent = await pair.send(key, "?resend=1");
  expect(resent).toMatchObject({ status: 201, body: { stored: true } });
  expect(pair.made(key)).toBe(made + 1);
  expect((await pair.send(key))?.body).toEqual(resent?.body);
  expect(pair.made(key)).toBe(made + 1);
}

describe("POST /v1/messages with a relay killed by -9", () => {
  // One pair for all that need nothing of their own; each test has keys of its own.
  let pair: Pair;
  let hasFailed = false;
  beforeAll(async () => {
    pair = await openPair();
  });
  afterAll(() => pair.dispose(hasFailed));
  beforeEach(async ({ onTestFailed }) => {
    onTestFailed(() => {
      hasFailed = true;
    });
    pair.whenMade = null;
    pair.sandbox.setFaults({});
    if (!pair.relay.isRunning()) await pair.relay.start();
  });

  /** Holds the store once the service has made the next message; gives what lets go of it. */
  const holdWhenMade = () => {
    let release = () => {};
    pair.whenMade = () => {
      pair.whenMade = null;
      release = holdStore(pair.relay.storePath);
    };
    return () => release();
  };

  test("before the call: nothing is sent, and the key is free", async () => {
    // The share has room for one message a minute.
    const tight = await startPair({ plan: "escala", share: 0.001 });
    expect((await tight.send("first"))?.status).toBe(201);
    const waiting = tight.send("k");
    await until("it waits for room", async () =>
      /calls_waiting\{[^}]*priority="send"\} 1/.test(
        String((await tight.relay.ask("/metrics")).body),
      ),
    );
    await tight.relay.kill9();
    expect(await waiting).toBeNull();
    await tight.relay.start();
    expect(tight.made("k")).toBe(0);
    // The call before the crash still has the minute's room; nothing else holds up the key.
    expect(await tight.send("k", "?maxWait=100ms")).toMatchObject({
      status: 429,
      body: { code: "service_rate_limited" },
    });
    await tight.relay.kill9();
    tight.relay.writeSettings({
      accounts: {
        main: { baseUrl: tight.sandbox.url, apiKey: tight.sandbox.key, plan: "escala", share: 1 },
      },
    });
    await tight.relay.start();
    expect(await tight.send("k")).toMatchObject({ status: 201 });
    expect(tight.made("k")).toBe(1);
  });

  test.each(["before", "after"] as const)(
    "during the call, %s the service has done its work",
    async (when) => {
      const key = `hangs ${when}`;
      const calls = async () => (await usageOf(pair.sandbox)).apiCalls.used;
      const before = await calls();
      pair.sandbox.setFaults({ api: [{ answer: "hang", when, times: 1 }] });
      const sending = pair.send(key);
      await until("the call hangs", async () => (await calls()) === before + 1);
      if (when === "after") await until("it was done", () => pair.made(key) === 1);
      await pair.relay.kill9();
      expect(await sending).toBeNull();
      await pair.relay.start();
      await expectUnknownThenSettled(pair, key, when === "after" ? 1 : 0);
    },
  );

  test("after the answer, before the commit: the caller has id and wamid, the key does not", async () => {
    const release = holdWhenMade();
    const told = await pair.send("not committed");
    const [message] = pair.sandbox.messages().filter(({ text }) => text === "not committed");
    expect(told).toMatchObject({
      status: 202,
      body: { stored: false, id: message?.id, wamid: message?.wamid },
    });
    // While the process lives it knows.
    expect(await pair.send("not committed")).toMatchObject({
      status: 202,
      body: { wamid: message?.wamid },
    });
    await pair.relay.kill9();
    release();
    await pair.relay.start();
    await expectUnknownThenSettled(pair, "not committed", 1);
  });

  test("at random moments: no key is sent twice, and every key has the right state", async () => {
    const ends = { done: 0, unknown: 0, free: 0 };
    const rounds = soakSize(5, 12);
    // From before the first request is read until after the last answer; a hundredth of a second is
    // about one send.
    const latestMs = 55;
    const jitter = createRandom(seed);
    for (let round = 0; round < rounds; round++) {
      const keys = Array.from({ length: 4 }, (_, n) => `round ${round}, message ${n}`);
      // In the first one no request is read for certain, also when this process pauses before the
      // kill.
      if (round === 0) pair.relay.signal("SIGSTOP");
      const sending = keys.map((key) => pair.send(key));
      await wait(Math.max(0, (round / (rounds - 1)) * latestMs - jitter.below(latestMs / rounds)));
      // In the last one something is done for certain, on a slow machine too.
      if (round === rounds - 1) await Promise.race(sending);
      await pair.relay.kill9();
      const told = await Promise.all(sending);
      await pair.relay.start();
      for (const [n, key] of keys.entries()) {
        const before = pair.made(key);
        expect(before).toBeLessThanOrEqual(1);
        const answer = await pair.send(key);
        if (told[n]?.status === 201) expect(answer?.body).toEqual(told[n]?.body);
        if (answer?.status === 409) {
          ends.unknown += 1;
          // Whole, so that a failure shows why a call of this process had no end.
          expect(answer.body).toMatchObject({
            code: "outcome_unknown",
            details: { justNow: false },
          });
          expect(pair.made(key)).toBe(before);
          // What a person would do: look into the chat, and send again only what is not there.
          if (before === 0) expect((await pair.send(key, "?resend=1"))?.status).toBe(201);
        } else {
          ends[before === 1 ? "done" : "free"] += 1;
          expect(answer?.status).toBe(201);
          expect(pair.sandbox.messages().find(({ text }) => text === key)?.wamid).toBe(
            answer?.body.wamid,
          );
        }
        expect([key, pair.made(key)]).toEqual([key, 1]);
      }
    }
    // Where it was killed is chance, but that all of it was before or after everything is not
    // likely.
    expect(ends.done).toBeGreaterThan(0);
    expect(ends.free).toBeGreaterThan(0);
    console.info(`killed at any moment: ${JSON.stringify(ends)}`);
  });
});
