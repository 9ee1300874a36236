import { expect, test } from "vitest";
import { createListening, type ListeningParts } from "../../../src/inspect/listening.ts";
import { createManualClock } from "../../harness/manual-clock.ts";

test("lists the connected listeners, then the cursors of others, and masks names like phone numbers", async () => {
  const clock = createManualClock(1_000);
  const store = {
    read: { listen: { ends: async () => ({ oldest: 1, newest: 40 }) } },
    listCursors: () => [
      { name: "+5491155550100", seq: 39, movedAt: 900 },
      { name: "ana", seq: 12, movedAt: 800 },
      // Ahead of the newest seq: the store was restored from a copy.
      { name: "ci", seq: 50, movedAt: 700 },
    ],
  } as unknown as ListeningParts["store"];
  const { port, list } = createListening({ store, clock, retention: () => 0 });
  let position = 15;
  const leave = port.enter({ name: "ana", position: () => position });
  port.enter({ name: null, position: () => 40 });
  position = 20;
  const others = [
    {
      name: expect.stringMatching(/^listener:[0-9a-f]{12}$/),
      connectedAt: null,
      movedAt: 900,
      position: 39,
      lag: 1,
    },
    { name: "ci", connectedAt: null, movedAt: 700, position: 50, lag: 0 },
  ];
  expect(await list()).toEqual([
    { name: "ana", connectedAt: 1_000, movedAt: 800, position: 20, lag: 20 },
    { name: null, connectedAt: 1_000, movedAt: null, position: 40, lag: 0 },
    ...others,
  ]);
  leave?.();
  expect(
    (await list()).map(({ name, connectedAt, position }) => [name, connectedAt, position]),
  ).toEqual([
    [null, 1_000, 40],
    [expect.any(String), null, 39],
    ["ana", null, 12],
    ["ci", null, 50],
  ]);
});
