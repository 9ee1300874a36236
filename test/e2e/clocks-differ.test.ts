// @module-tag slow: it starts receivers and workers with clocks hours apart.
import { expect, test } from "vitest";
import { auditOf, statsOf } from "../harness/ask-relay.ts";
import { openDownstream } from "../harness/downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { openSession } from "../harness/postgres-session.ts";
import { createMessages } from "../harness/posts.ts";
import { makeRelay, type RelayProcess } from "../harness/relay-process.ts";
import { routeTo, type SettingsParts } from "../harness/relay-settings.ts";
import { until } from "../harness/until.ts";
import { createDatabase } from "../setup/database.ts";

const minute = 60_000;
const hour = 60 * minute;

/** A process on a machine whose clock is that much ahead, as Node shows it. */
async function startAhead(
  ms: number,
  role: "receive" | "work",
  settings: SettingsParts,
): Promise<RelayProcess> {
  const shifted = `const Real = Date; globalThis.Date = class extends Real {
    constructor(...given) { super(...(given.length === 0 ? [Real.now() + ${ms}] : given)); }
    static now() { return Real.now() + ${ms}; }
  };`;
  const env = { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(shifted)}` };
  const relay = await makeRelay({ role, settings, env });
  await relay.start();
  return relay;
}

interface Shown {
  readonly disposition: string;
  readonly receivedAt: string;
}

test("receivers and workers with clocks hours apart park, keep, retry and date everything by the right clock", async () => {
  await using database = await createDatabase();
  await using session = await openSession(database.url);
  const downstream = await openDownstream();
  downstream.fail({ status: 500 }, "/failing");
  const settings = {
    storage: { driver: "postgres", url: database.url },
    tracking: { unknown: "park", parkFor: "30m" },
    retention: { events: "30m", ignored: "30m", deliveries: "30m", messages: "30m" },
    routes: [
      routeTo(`${downstream.url}/tracked`, { name: "tracked", match: { tracked: true } }),
      routeTo(`${downstream.url}/failing`, {
        name: "failing",
        match: { statuses: ["failed"] },
        to: { retry: { schedule: ["0s", "30m", "30m"], jitter: 0 } },
      }),
    ],
  };
  const [receiver, behind] = await Promise.all([
    startAhead(10 * minute, "receive", settings),
    startAhead(-hour, "work", settings),
  ]);

  const messages = createMessages("clocks");
  const [ours, late] = [messages.wamid(), messages.wamid()];
  const register = (wamid: string) =>
    receiver.ask("/v1/messages/track", {
      method: "POST",
      body: { account: "main", wamid, reference: wamid },
    });
  const shown = async ({ id }: { id: string }) =>
    (await receiver.ask(`/v1/events/${id}`)).body as Shown;
  const failing = async () => {
    const { body } = await receiver.ask("/v1/deliveries?route=failing");
    return (body as { data: { attempts: number; nextAt: string | null }[] }).data[0];
  };
  const delivered = async () => (await statsOf(receiver)).deliveries.delivered;

  await register(ours);
  const first = messages.status(ours, "sent");
  const failed = messages.status(ours, "failed");
  const parked = messages.status(late, "sent");
  const postedAt = Date.now();
  for (const event of [first, failed, parked])
    expect((await postEvent(receiver.webhookUrl, event)).word).toBe("accepted");
  await until("the one behind has planned and sent all", async () => {
    return (
      (await delivered()) === 2 &&
      (await failing())?.attempts === 1 &&
      (await shown(parked)).disposition === "parked"
    );
  });
  expect(Math.abs(Date.parse((await shown(first)).receivedAt) - postedAt)).toBeLessThan(5 * minute);
  expect(
    Math.abs(Date.parse((await failing())?.nextAt ?? "") - postedAt - 30 * minute),
  ).toBeLessThan(5 * minute);

  await behind.stop();
  await startAhead(hour, "work", settings);
  const looksOf = (key: string) =>
    session.number("SELECT coalesce(sum(version), 0) FROM relay.state WHERE key = $1", [key]);
  // A lease is renewed after a pass.
  await until("retention has passed over all", async () => (await looksOf("leader/retention")) > 1);
  await until("parking was looked at", async () => (await looksOf("leader/parking")) > 1);
  const second = messages.status(ours, "delivered");
  expect((await postEvent(receiver.webhookUrl, second)).word).toBe("accepted");
  await until("the one ahead delivers", async () => (await delivered()) === 3);

  expect(await shown(parked)).toMatchObject({ disposition: "parked" });
  expect(await failing()).toMatchObject({ attempts: 1 });
  expect((await postEvent(receiver.webhookUrl, first)).word).toBe("duplicate");
  await register(late);
  await until("what was registered in time is delivered", async () => (await delivered()) === 4);
  expect(await auditOf(receiver)).toMatchObject({ balanced: true });
});
