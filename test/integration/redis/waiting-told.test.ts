// Slow: it receives more events than one search reads.
import { expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { redisForTest, tellRedis } from "../../harness/redis-states.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { startRelay } from "../../harness/relay-process.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { jsonOf, runOn, runRemote } from "../cli/run-cli.ts";

interface Told {
  readonly data: readonly {
    readonly message: { readonly wamid: string; readonly status: string } | null;
    readonly events: readonly {
      readonly seq: number;
      readonly receivedAt: string;
      readonly disposition: string;
      readonly waits: { readonly since: string; readonly ahead: number } | null;
    }[];
  }[];
  readonly unseen: number;
}

const messages = createMessages("told while it waits");

test("without workers the API and commands still show a message's newest events", {
  tags: ["slow"],
}, async () => {
  const redis = await redisForTest();
  const downstream = await openDownstream();
  const settings = {
    storage: { driver: "redis", url: redis.url, commandTimeout: "30s" },
    tracking: { unknown: "forward" },
    routes: [routeTo(downstream.url)],
  };
  const receiver = await startRelay({ role: "receive", settings });
  const worker = await startRelayHere({ role: "work", settings });
  const [old, fresh, never] = [messages.wamid(), messages.wamid(), messages.wamid()];
  const post = async (wamid: typeof old, status: "sent" | "delivered" | "read") =>
    expect((await postEvent(receiver.webhookUrl, messages.status(wamid, status))).word).toBe("accepted");
  const ask = async (wamid: string) => (await receiver.ask(`/v1/explain/${encodeURIComponent(wamid)}`)).body as Told;
  const list = async (wamid: string) => (await receiver.ask(`/v1/events?wamid=${encodeURIComponent(wamid)}`)).body;
  const wordsOf = ({ data }: Told) =>
    data.flatMap(({ events }) => events.map(({ seq, disposition, waits }) => [seq, disposition, waits?.ahead]));

  await post(old, "sent");
  await until("it is delivered", async () => ((await receiver.ask("/v1/deliveries?state=delivered")).body as Told).data.length === 1);
  await worker.stop();
  await post(old, "delivered");
  await post(fresh, "sent");
  await post(fresh, "delivered");

  const both = await ask(old);
  expect(both).toMatchObject({ data: [{ message: { wamid: old, status: "sent" } }], unseen: 0 });
  expect(wordsOf(both)).toEqual([
    [1, "routed", undefined],
    [2, "accepted", 0],
  ]);
  const waiting = await ask(fresh);
  expect(waiting).toMatchObject({ data: [{ message: null, run: null, next: null }], unseen: 0 });
  expect(wordsOf(waiting)).toEqual([
    [3, "accepted", 1],
    [4, "accepted", 2],
  ]);
  for (const { receivedAt, waits } of waiting.data[0]?.events ?? []) expect(waits?.since).toBe(receivedAt);
  expect(await list(old)).toMatchObject({
    data: [
      { seq: 2, disposition: "accepted" },
      { seq: 1, disposition: "routed" },
    ],
    next: null,
    unseen: 0,
  });

  for (const run of [runRemote, runOn]) {
    const json = await run(receiver, "explain", fresh, "--json", "--show-pii");
    expect(jsonOf(json)).toEqual(waiting);
    expect(jsonOf<Told>(await run(receiver, "explain", old, "--json")).data).toMatchObject([
      { events: [{ waits: null }, { waits: { ahead: 0 } }] },
    ]);
    const text = await run(receiver, "explain", fresh);
    expect([text.code, text.err]).toEqual([0, ""]);
    expect(text.out).not.toContain(fresh);
    expect(text.out).toMatch(/^message wamid:\w+ of account main, not tracked yet$/m);
    expect(text.out).toMatch(
      /^\S+ \S+ {2}event 3: message\.status, .+(\n .+)*\n {4}disposition +accepted; waits for .+ to plan it, since \S+ \S+, 1 before it$/m,
    );
    expect(text.out).toMatch(
      /^\S+ \S+ {2}event 4: message\.status, .+(\n .+)*\n {4}disposition +accepted; waits for .+ to plan it, since \S+ \S+, 2 before it$/m,
    );
    const after = (await run(receiver, "explain", old)).out;
    expect(after).toMatch(/^message wamid:\w+ of account main\n +status +sent$/m);
    expect(after).toMatch(
      /disposition +routed\n(.+\n)+\n.+event 2: (.+\n)+ +disposition +accepted; waits for .+ to plan it, since \S+ \S+, and is next$/m,
    );
    const rows = jsonOf<Told>(await run(receiver, "events", "list", "--wamid", fresh, "--json")).data;
    expect(rows).toMatchObject([{ seq: 4 }, { seq: 3 }]);
    const nothing = await run(receiver, "explain", never);
    expect([nothing.code, nothing.err]).toEqual([
      1,
      expect.stringContaining("not found: no event, message or run has this id, wamid or reference"),
    ]);
    expect(nothing.err).not.toContain("not searched");
  }

  // So many more wait that the oldest are out of reach; of these nothing is there but that they wait.
  const more = Array.from({ length: 49_999 }, (_, n) => 5 + n);
  for (let n = 0; n < more.length; n += 10_000) await tellRedis(redis, "RPUSH", "{relay}:unplanned", ...more.slice(n, n + 10_000));
  expect(wordsOf(await ask(old))).toEqual([[1, "routed", undefined]]);
  expect(await ask(fresh)).toMatchObject({ data: [{ events: [{ seq: 4 }] }], unseen: 2 });
  const some = await runRemote(receiver, "explain", fresh);
  expect([some.code, some.err]).toEqual([0, expect.stringContaining("not searched: the oldest 2 events that wait to be planned")]);
  expect(jsonOf<Told>(await runRemote(receiver, "explain", fresh, "--json"))).toMatchObject({ unseen: 2 });
  expect(await ask(never)).toMatchObject({ code: "not_found", error: expect.stringMatching(/not searched: the oldest 2 events/) });
  const nothing = await runRemote(receiver, "explain", never);
  expect([nothing.code, nothing.err]).toEqual([1, expect.stringContaining("not searched: the oldest 2 events")]);
  // A list of its events says so as well.
  expect(await list(old)).toMatchObject({ data: [{ seq: 1 }], next: null, unseen: 2 });
  expect(await list(never)).toEqual({ data: [], next: null, unseen: 2 });
  for (const run of [runRemote, runOn]) {
    const events = await run(receiver, "events", "list", "--wamid", old);
    expect([events.code, events.err]).toEqual([0, expect.stringMatching(/^not searched: the oldest 2 events that wait/)]);
    const json = await run(receiver, "events", "list", "--wamid", old, "--json");
    expect([json.err, jsonOf(json)]).toMatchObject(["", { data: [{ seq: 1 }], next: null, unseen: 2 }]);
  }

  await tellRedis(redis, "LTRIM", "{relay}:unplanned", 0, 2);
  await worker.start();
  await until("all is delivered", () => downstream.counts().taken === 4);
  await until("all is told as planned", async () => (await ask(fresh)).data[0]?.message?.status === "delivered");
  expect(wordsOf(await ask(fresh))).toEqual([
    [3, "routed", undefined],
    [4, "routed", undefined],
  ]);
});
