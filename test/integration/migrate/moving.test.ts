import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Redis as Client } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { bodyOf } from "../../../src/sandbox/events/event-maker.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { redisForTest } from "../../harness/redis-states.ts";
import { makeRelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { makeRelay } from "../../harness/relay-process.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { runCli } from "../../harness/run-cli.ts";
import { runHere } from "../../harness/run-here.ts";
import { until } from "../../harness/until.ts";

test("a relay moves from its file to Redis: deliveries continue in order, all data is there, and the sums match", async () => {
  const redis = await redisForTest();
  const downstream = await openDownstream();
  downstream.fail({ status: 500 });
  const slow = { to: { retry: { schedule: ["0s", "1h"], jitter: 0 } } };
  const tracked = { ...routeTo(`${downstream.url}/mine`, { name: "mine", ...slow }), match: { tracked: true } };
  const routes = [routeTo(`${downstream.url}/all`, slow), tracked];
  const old = await startRelayHere({ settings: { routes, tracking: { unknown: "park", parkFor: "10m" } } });
  const make = createMessages("moving");
  const wamids = Array.from({ length: 5 }, () => make.wamid());
  const events = wamids.flatMap((wamid) => (["sent", "delivered", "read"] as const).map((status) => make.status(wamid, status)));
  const [late] = wamids;
  for (const wamid of wamids.slice(1)) await old.ask("/v1/messages/track", { method: "POST", body: { account: "main", wamid } });
  for (const event of events) expect((await postEvent(old.webhookUrl, event)).word).toBe("accepted");
  const large = Buffer.from(JSON.stringify({ ...JSON.parse(bodyOf(make.event()).toString()), padding: "x".repeat(5_000) }));
  expect((await postEvent(old.webhookUrl, large)).word).toBe("accepted");
  await until("the first attempts failed", () => downstream.arrivals.length >= 6);

  const storage = { driver: "redis", url: redis.url, prefix: "moved", commandTimeout: "30s" };
  const next = await makeRelayHere({ settings: { routes, storage, tracking: { unknown: "park", parkFor: "10m" } } });
  const command = ["migrate", "--from", `sqlite:${old.storePath}`, "--to", "redis", "--config", next.settingsPath];
  const refused = await runCli(...command);
  expect(refused).toMatchObject({ code: 1, stdout: "", stderr: expect.stringMatching(/^wamid-relay: [^\n]* is in use by [^\n]*\n$/) });
  await old.stop();
  const moved = await runCli(...command);
  expect(moved.stdout).toMatch(/^events routed +16 +16 *$/m);
  expect(moved.stdout).toMatch(/^events parked until a time +4 +4 *$/m);
  expect(moved.stdout).toMatch(/^audit of Redis: the sums match/m);
  expect(moved.code).toBe(0);

  const known = downstream.arrivals.length;
  downstream.recover();
  await next.start();
  expect(await runHere(command)).toMatchObject({ code: 0, out: expect.stringContaining("nothing was written") });
  for (const event of events) expect((await postEvent(next.webhookUrl, event)).word).toBe("duplicate");
  expect((await postEvent(next.webhookUrl, large)).word).toBe("duplicate");
  // Registered only now: what was parked for it is released.
  await next.ask("/v1/messages/track", { method: "POST", body: { account: "main", wamid: late } });
  const listed = (await next.ask("/v1/deliveries?state=waiting&limit=100")).body as { data: { id: string }[] };
  for (const { id } of listed.data) await next.ask(`/v1/deliveries/${id}/retry`, { method: "POST" });
  const wanted = events.length * 2 + 1;
  const taken = () => downstream.arrivals.slice(known).filter(({ answered }) => answered === 200);
  await until("all of it has arrived", () => new Set(taken().map(({ deliveryId }) => deliveryId)).size === wanted);
  // What was delivered just before it was retried comes again.
  const firsts = [
    ...new Map(
      taken()
        .toReversed()
        .map((one) => [one.deliveryId, one]),
    ).values(),
  ].sort((a, b) => a.number - b.number);
  for (const wamid of wamids) {
    const ids: string[] = events.filter(({ data }) => (data as { wamid?: string }).wamid === wamid).map(({ id }) => id);
    for (const path of ["/all", "/mine"]) {
      const bodies = firsts.flatMap((one) => (one.body === null || one.path !== path ? [] : [JSON.parse(one.body.toString())]));
      const came = (bodies as { id: string }[]).map(({ id }) => id).filter((id) => ids.includes(id));
      expect(came, path).toEqual(ids);
    }
  }
  await next.stop();
  const audit = await runHere(["audit", "--config", next.settingsPath]);
  expect(audit).toMatchObject({ code: 0, out: expect.stringContaining("the sums match") });
});

test("rejects wrong source and target in one line, and writes nothing", async () => {
  const redis = await redisForTest();
  const old = await startRelayHere();
  await postEvent(old.webhookUrl, createMessages("first").event());
  await old.stop();
  const storage = { driver: "redis", url: redis.url, prefix: "used", commandTimeout: "30s" };
  const next = await makeRelayHere({ settings: { storage } });
  const from = (path: string) => ["migrate", "--from", `sqlite:${path}`, "--to", "redis", "--config"];
  const refusal = async (why: RegExp, ...command: string[]) => {
    const { code, out, err } = await runHere(command);
    expect(err).toMatch(/^wamid-relay: [^\n]*\n$/);
    expect(err).toMatch(why);
    expect({ code, out }).toEqual({ code: 1, out: "" });
  };
  await refusal(/storage\.driver sqlite/, ...from(old.storePath), old.settingsPath);
  await refusal(/cannot be opened: it is a folder; name the file in it$/m, ...from(old.folder), next.settingsPath);
  await refusal(/there is no store at/, ...from(join(old.folder, "other.db")), next.settingsPath);
  const text = join(old.folder, "text.db");
  writeFileSync(text, "no database, and long enough to be read as one".repeat(50));
  await refusal(/is not a SQLite database/, ...from(text), next.settingsPath);

  await next.start();
  await refusal(/a relay runs on prefix used .*process \d+/, ...from(old.storePath), next.settingsPath);
  await postEvent(next.webhookUrl, createMessages("second").event());
  await next.stop();
  await refusal(/in use: a relay has stored there before/, ...from(old.storePath), next.settingsPath);
  await redis.kill();
  await refusal(/Redis cannot be reached/, ...from(old.storePath), next.settingsPath);
  expect((await runHere(["migrate", "--from", "redis", "--to", "redis", "--config", next.settingsPath])).code).toBe(2);
});

test("until it finishes no relay starts on the target, and no command reads it", async () => {
  const redis = await redisForTest();
  const client = new Client(redis.url);
  onTestFinished(() => client.disconnect());
  const unfinished = { file: "f", path: "/srv/relay.db", startedAt: 1, finishedAt: null, step: 3, after: 4 };
  await client.set("{half}:migration", `0123456789${JSON.stringify(unfinished)}`);
  const relay = await makeRelay({ settings: { storage: { driver: "redis", url: redis.url, prefix: "half", commandTimeout: "30s" } } });
  expect(await relay.startRefused()).toEqual({ code: 1, signal: null });
  expect(relay.stderr()).toMatch(/^wamid-relay: [^\n]*the migration of \/srv\/relay\.db to prefix half has not ended[^\n]*$/m);
  expect((await runHere(["events", "list", "--config", relay.settingsPath])).err).toContain("has not ended");
  await client.set("{half}:migration", `0123456789${JSON.stringify({ ...unfinished, finishedAt: 5 })}`);
  await relay.start();
});
