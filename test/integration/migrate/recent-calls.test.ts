import { Redis as Client } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { carryRecentCalls } from "../../../src/app/migrate.ts";
import { callKinds } from "../../../src/service/limits/slots.ts";
import { openSource } from "../../../src/store/migrate/source.ts";
import { createRedisCaps } from "../../../src/store/redis/shared-limits.ts";
import { openSqliteStore } from "../../../src/store/sqlite/open.ts";
import { openSqliteSubject } from "../../contract/sqlite-subject.ts";
import { rulesFor, start } from "../../contract/store-events.ts";
import { redisForTest } from "../../harness/redis-states.ts";

const baseUrl = "https://messaging.example";
const nothing = {
  holder: "test",
  born: "",
  limits: { requests: 10, messages: 10, asks: 10, polls: 10 },
  atOnce: { all: 5, others: 5 },
  graceMs: 0,
  wants: callKinds.map(() => 0),
  room: { all: 0, others: 0 },
  firstId: 1,
  ended: [],
  renewed: [],
  version: 0,
  next: null,
};

test("calls of the last minute count once against the shared caps, also after repeated migrations", async () => {
  const redis = await redisForTest();
  const client = new Client(redis.url);
  onTestFinished(() => client.disconnect());
  const link = { run: <T>(command: (one: Client) => Promise<T>) => command(client) };
  const subject = await openSqliteSubject(rulesFor([]));
  onTestFinished(() => subject.end());
  await subject.close();
  const store = openSqliteStore(subject.path, rulesFor([]), { committed: () => {}, failed: () => {} });
  const note = (ago: number, cap: "messages" | "requests") => store.noteCall("main", { at: start - ago, cap, priority: "send" });
  await note(100_000, "messages");
  await note(5_000, "messages");
  await note(5_000, "messages");
  await note(1_000, "requests");
  await store.close();

  const source = openSource(subject.path);
  onTestFinished(() => source.close());
  for (let times = 0; times < 2; times++) {
    await carryRecentCalls(source, link, { prefix: "calls", accounts: { main: { baseUrl }, other: {} }, now: start });
  }
  const { used } = await createRedisCaps(link, "calls", "main", baseUrl).step(nothing);
  expect(used).toEqual({ requests: 3, messages: 2 });
});
