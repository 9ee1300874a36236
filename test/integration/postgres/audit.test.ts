import { expect, test } from "vitest";
import { audit } from "../../../src/store/audit/audit.ts";
import { emptyShared, settlementOf } from "../../contract/one-store.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";

const routes = [{ name: "all" }, { name: "ours", match: { tracked: true } }] as const;
const rounds = 6;

test("an audit finds nothing broken while two processes receive, deliver, register and replay", async () => {
  await using shared = await emptyShared();
  const open = (writer: string) => shared.open(rulesFor(routes), { writer });
  const [one, two, reader] = await Promise.all([open("one"), open("two"), open("three")]);
  let isWorking = true;

  async function receive(store: typeof one): Promise<void> {
    for (let round = 0; round < rounds; round += 1) {
      const wamids = Array.from({ length: 8 }, (_, n) => `w${round * 4 + n}`);
      const of = (status: string) =>
        store.accept(wamids.map((wamid) => anEvent({ wamid, status, id: `${status} ${wamid}` })));
      await Promise.all(["sent", "delivered", "read"].map(of));
      await store.registerEach(
        wamids.slice(0, 3).map((wamid) => ({ account: "main", wamid })),
        start,
      );
    }
  }
  async function deliver(route: string): Promise<void> {
    for (let turn = 0; isWorking; turn += 1) {
      const due = await two.due(route, start + 1_000, 20);
      await two.settle(
        due.map((each, n) =>
          settlementOf(
            each,
            (["waiting", "delivered", "dead"] as const)[(turn + n) % 3] ?? "dead",
            start,
          ),
        ),
      );
      await two.send(
        ({ retry }) => retry,
        due.slice(0, 3).map(({ event }) => ({ event, route, at: start })),
      );
    }
  }
  async function check(): Promise<number> {
    let events = 0;
    for (let last = false; !last; ) {
      last = !isWorking;
      const { offenders, rows } = await reader.snapshot(
        audit({ now: start, isRunning: true }, () => {}),
      );
      expect(offenders).toEqual([]);
      events = rows.events;
    }
    return events;
  }

  const working = Promise.all([receive(one), receive(two)]).finally(() => {
    isWorking = false;
  });
  const [, , , events] = await Promise.all([working, deliver("all"), deliver("ours"), check()]);
  expect(events).toBe(3 * (4 * (rounds - 1) + 8));
});
