// @module-tag slow: it sends, loses and repairs the statuses of many messages.
import { expect, test } from "vitest";
import { openDownstream } from "../harness/downstream.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { soakSize } from "../harness/soak.ts";
import { rowsOf } from "../harness/store-rows.ts";
import { until } from "../harness/until.ts";
import { openStage, type SentMessage, type Stage } from "../integration/reconcile/stage.ts";

const sends = soakSize(400, 5_000);
const atOnce = 24;
const batch = 100;
/** Messages whose last event is dropped for certain. */
const lost = soakSize(30, 300);
const minute = 60_000;
/** Where a status stands; it never goes down. */
const height: Readonly<Record<string, number>> = {
  pending: 1,
  sent: 2,
  failed: 3,
  delivered: 4,
  read: 5,
};

/** Sends all, and registers them while their first statuses come in. */
async function sendAll(stage: Stage): Promise<void> {
  const [template] = stage.sandbox.templates();
  let next = 0;
  let unregistered: SentMessage[] = [];
  async function register(): Promise<void> {
    const messages = unregistered;
    unregistered = [];
    const body = messages.map(({ id, wamid }) => ({ account: "main", id, wamid }));
    expect((await stage.ask("POST", "/v1/messages/track", body)).status).toBe(200);
  }
  async function work(): Promise<void> {
    while (next < sends) {
      const n = next++;
      // Some of the numbers with a fixed outcome are among them: failed, failed and then delivered,
      // never read, stuck.
      const digits = String(n % 200).padStart(4, "0");
      if (digits === "0005" || digits === "0006") continue;
      const to = `+54911${String(n).padStart(4, "0")}${digits}`;
      const { status, body } = await stage.sandbox.call("POST", "/messages", {
        to,
        template: { id: template?.id, variables: {} },
      });
      expect(status).toBe(201);
      unregistered.push(body as SentMessage);
      if (unregistered.length >= batch) await register();
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work));
  if (unregistered.length > 0) await register();
}

/** What reached a path, each delivery once, in order of arrival: the statuses of each message. */
function statusesAt(
  downstream: Awaited<ReturnType<typeof openDownstream>>,
  path: string,
): Map<string, string[]> {
  const seen = new Set<string>();
  const found = new Map<string, string[]>();
  for (const { path: at, deliveryId, wamid, answered, body } of downstream.arrivals) {
    if (at !== path || wamid === null || answered !== 200 || seen.has(deliveryId)) continue;
    seen.add(deliveryId);
    const { data } = JSON.parse(String(body)) as { data: { status: string } };
    found.set(wamid, [...(found.get(wamid) ?? []), data.status]);
  }
  return found;
}

test(`${sends} sends are repaired with a tenth of the events dropped, a tenth doubled, a fifth reordered and a twentieth truncated`, async () => {
  const downstream = await openDownstream();
  const routes = [
    routeTo(`${downstream.url}/all`, {
      name: "all",
      emit: "transitions",
      match: { events: ["message.status"] },
    }),
    routeTo(`${downstream.url}/read`, {
      name: "read",
      emit: "transitions",
      match: { events: ["message.*"], statuses: ["read"], tracked: true },
    }),
  ];
  // Twenty times as fast: time enough for lives, and for the service's caps.
  const stage = await openStage({
    webhooks: true,
    isUnlimited: true,
    speed: 20,
    settings: { routes, tracking: { parkFor: "12h" } },
  });
  stage.sandbox.setFaults({ events: { drop: 0.1, duplicate: 0.1, reorder: 0.2, truncate: 0.05 } });
  await sendAll(stage);
  const isOver = ({ status }: { status: string }) =>
    status === "read" || status === "delivered" || status === "failed";
  await until(
    "nearly all have come to rest",
    () => stage.sandbox.messages().filter(isOver).length > 0.95 * sends,
  );
  stage.clock.jump(15 * minute);
  // At most 15 real minutes; usually far less.
  await stage.sandbox.idle(300 * minute);
  // Truncated events have the relay look up what is open, which repairs much: it is to be over, so
  // that what follows is left to reconciliation alone.
  const hydrating = () =>
    rowsOf<{ n: number }>(
      stage.storePath,
      "SELECT count(*) AS n FROM hydrations WHERE state = 0",
    )[0]?.n;
  await until("hydration is over", () => hydrating() === 0);
  stage.sandbox.setFaults({ events: { drop: 1 } });
  const delivered = stage.sandbox.messages().filter(({ status }) => status === "delivered");
  for (const { id } of delivered.slice(0, lost)) {
    expect(
      (await stage.sandbox.control("POST", `/messages/${id}/status`, { status: "read" })).status,
    ).toBeLessThan(300);
  }
  await stage.sandbox.idle(300 * minute);
  const truth = new Map(
    stage.sandbox.messages().map(({ wamid, status }) => [wamid as string, status as string | null]),
  );
  expect(truth.size).toBe(sends - (2 * sends) / 200);
  const wrongNow = async () => {
    const seen = await stage.statuses();
    return [...truth].filter(([wamid, status]) => seen.get(wamid) !== status).length;
  };
  const toRepair = await wrongNow();
  expect(toRepair).toBeGreaterThanOrEqual(lost);

  // From an hour on those that are delivered are polled too, for they may be read.
  stage.clock.jump(61 * minute);
  let rounds = 0;
  let changed = 0;
  for (let wrong = sends; wrong > 0 && rounds < 5; rounds++) {
    changed += (await stage.reconcile()).changed;
    wrong = await wrongNow();
    if (wrong > 0) stage.clock.jump(6 * 60 * minute);
  }
  expect(await wrongNow()).toBe(0);
  // Each was learned once, and nothing else was.
  expect(changed).toBe(toRepair);

  const moved = (extra = "") =>
    rowsOf<{ n: number }>(
      stage.storePath,
      `SELECT count(*) AS n FROM events WHERE moved = 1 ${extra}`,
    )[0]?.n ?? -1;
  await until("all is delivered", () => downstream.counts("/all").taken === moved());
  await until(
    "all that is read is delivered",
    () => downstream.counts("/read").taken === moved("AND status = 'read'"),
  );

  const all = statusesAt(downstream, "/all");
  for (const [wamid, status] of truth) {
    const got = all.get(wamid) ?? [];
    const heights = got.map((word) => height[word] as number);
    // Once each, in order, and the last one is the truth.
    expect(heights).toEqual([...new Set(heights)].sort((a, b) => a - b));
    expect(got.at(-1)).toBe(status);
  }
  const read = statusesAt(downstream, "/read");
  expect(new Set(read.keys())).toEqual(
    new Set([...truth].filter(([, status]) => status === "read").map(([wamid]) => wamid)),
  );
  expect([...read.values()].every((got) => got.length === 1)).toBe(true);
});
