// Slow: it runs every command with and without a running Redis.
import { expect, test } from "vitest";
import { openDownstream } from "../harness/downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { makeReplica, redisForTest } from "../harness/redis-states.ts";
import { makeRelay, startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { runCli } from "../harness/run-cli.ts";
import { until } from "../harness/until.ts";

test("commands read and write in Redis, and report in one line when it is unavailable", async () => {
  const server = await redisForTest({ appendonly: "always", args: ["--maxmemory", "200mb"] });
  const downstream = await openDownstream();
  const settings = { storage: { driver: "redis", url: server.url }, routes: [routeTo(downstream.url)] };
  const receiver = await startRelay({ role: "receive", settings });
  const worker = await makeRelay({ role: "work", settings });
  const at = ["--config", worker.settingsPath];
  await postEvent(receiver.webhookUrl, createMessages("looked").event());
  // About no message: what a receiver plans itself.
  const contact = { id: "contact-1", event: "contact.created", createdAt: new Date().toISOString(), data: {} };
  await postEvent(receiver.webhookUrl, Buffer.from(JSON.stringify(contact)));

  const [events, audit, doctor] = await Promise.all([
    runCli("events", "list", "--json", ...at),
    runCli("audit", ...at),
    runCli("doctor", "--json", ...at),
  ]);
  expect([events.code, audit.code]).toEqual([0, 0]);
  const { data } = JSON.parse(events.stdout) as { data: { disposition: string }[] };
  expect(data.map(({ disposition }) => disposition)).toEqual(["routed", "accepted"]);
  expect(audit.stdout).toContain("the sums match");
  const told = (JSON.parse(doctor.stdout) as { checks: { check: string; message: string }[] }).checks;
  expect(told.find(({ check }) => check === "processes")?.message).toContain("1 receive, 0 work");
  expect(told.find(({ check }) => check === "backlog")?.message).toBe("1 deliveries wait");

  const delivered = () => worker.log().filter(({ outcome }) => outcome === "delivered").length;
  await worker.start();
  await until("the worker has delivered both", async () => {
    const { body } = await receiver.ask("/v1/stats");
    return (body as { deliveries?: { delivered: number } }).deliveries?.delivered === 2;
  });
  // The worker at the port of these settings has no control API: the command writes into Redis, and the worker sends.
  const replay = await runCli("replay", "--state", "delivered", "--yes", ...at);
  expect(replay).toMatchObject({ code: 0, stdout: expect.stringContaining("2 ") });
  await until("they were delivered again", () => delivered() === 4);

  const failsAs = async (words: string, ...command: string[]) => {
    const { code, stderr } = await runCli(...command, ...at);
    expect([code, stderr]).toEqual([1, expect.stringMatching(new RegExp(`^wamid-relay: [^\\n]*${words}\\n$`))]);
  };
  await makeReplica(server);
  const [looked] = await Promise.all([runCli("events", "list", ...at), failsAs("Redis is a read-only replica", "resume", "everything")]);
  expect(looked).toMatchObject({ code: 0, stdout: expect.stringContaining("routed") });

  await server.kill();
  const away = "Redis cannot be reached \\(ECONNREFUSED\\)";
  await Promise.all([failsAs(away, "events", "list"), failsAs(away, "resume", "everything")]);
});
