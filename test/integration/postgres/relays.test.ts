// Slow: two relays on one database.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { createDatabase } from "../../setup/database.ts";

test("two relays on one database deliver all, in order, also when one of them stops", async () => {
  await using database = await createDatabase();
  const downstream = await openDownstream();
  const routes = ["a", "b", "c"];
  const settings = {
    storage: { driver: "postgres", url: database.url, schema: "relay", path: undefined },
    routes: routes.map((name) => routeTo(`${downstream.url}/${name}`, { name })),
  };
  const [one, other] = [await startRelayHere({ settings }), await startRelayHere({ settings })];

  let posted = 0;
  async function post(relay: RelayHere, message: number, status: string): Promise<void> {
    const data = { wamid: `wamid.${message}`, status };
    const event = { id: randomUUID(), event: "message.status", createdAt: new Date().toISOString(), data };
    expect((await postEvent(relay.webhookUrl, Buffer.from(JSON.stringify(event)))).status).toBe(200);
    posted += 1;
  }
  const messages = Array.from({ length: 20 }, (_, message) => message);
  const statuses = ["sent", "delivered", "read"];
  for (const [turn, status] of statuses.entries())
    await Promise.all(messages.map((message) => post((turn + message) % 2 === 0 ? one : other, message, status)));
  await one.stop();
  await Promise.all(messages.map((message) => post(other, message, "played")));
  // Stopping may hand back an attempt that had arrived, which another relay repeats.
  const firsts = () => downstream.arrivals.filter(({ attempt }) => attempt === 1);
  await until("all is delivered", () => firsts().length >= posted * routes.length);

  const expected = [...statuses, "played"];
  const byLane = Map.groupBy(firsts(), ({ path, wamid }) => `${path} ${wamid}`);
  expect(byLane.size).toBe(messages.length * routes.length);
  for (const arrivals of byLane.values()) expect(arrivals.map(({ body }) => JSON.parse(String(body)).data.status)).toEqual(expected);
});
