import { describe, expect, test } from "vitest";
import { createReadingPort } from "../../src/app/reading.ts";
import { maskId, maskWamid, shownDeliveryId, shownId } from "../../src/model/mask.ts";
import { accept, delivered, openWith, settle } from "./contract-tools.ts";
import { purgeAll } from "./retention-contract.ts";
import { start } from "./store-events.ts";
import type { ContractStore, OpenSubject } from "./store-port.ts";

const day = 86_400_000;
/** Its digits look like a phone number, so logs mask it. */
const hiddenUuid = "00000000-0000-4000-8000-549115551234";

/** A wamid as the service makes it, with the recipient's phone number. */
export function wamidOf(phone: string, name: string): string {
  const head = Buffer.from([0x1c, 0x18, phone.length]);
  return `wamid.${Buffer.concat([head, Buffer.from(`${phone}\x15\x02\0\x11\x18\x08${name}\0`)]).toString("base64")}`;
}

const readingOf = ({ read }: ContractStore) => createReadingPort(read, { stats: () => Promise.reject(new Error("not counted here")) });

export function searchContract(open: OpenSubject): void {
  describe("masked ids", () => {
    test("find the message, registered or only seen, by its wamid and the service's id", async () => {
      const { store, reopen } = await openWith(open, [{ name: "a" }]);
      const [seen, registered, both] = [
        wamidOf("5491155550100", "SEEN"),
        wamidOf("5491155550101", "KNOWN"),
        wamidOf("34600111222", "BOTH"),
      ];
      const seq = await accept(store, { wamid: seen });
      await store.register([{ account: "main", wamid: registered, id: hiddenUuid }], start);
      await accept(store, { wamid: both });
      await store.register([{ account: "main", wamid: both, reference: "order-1" }], start);
      const again = await reopen();
      for (const wamid of [seen, registered, both]) {
        expect(await again.read.messages.find(maskWamid(wamid))).toMatchObject([{ wamid, account: "main" }]);
      }
      expect(await again.read.messages.find(maskId("message", hiddenUuid))).toMatchObject([{ wamid: registered }]);
      expect(await again.read.messages.find("wamid:000000000000")).toEqual([]);
      const { data } = await readingOf(again).listEvents({ wamid: maskWamid(seen), limit: 50 });
      expect(data.map((event) => event.seq)).toEqual([seq]);
    });

    test("find the same wamid in every account that has it", async () => {
      const { store } = await openWith(open, [{ name: "a" }]);
      const wamid = wamidOf("5491155550100", "TWICE");
      await accept(store, { wamid });
      await accept(store, { wamid, account: "other" });
      const found = await store.read.messages.find(maskWamid(wamid));
      expect(found.map(({ account }) => account).sort()).toEqual(["main", "other"]);
    });

    test("find events, deliveries and runs", async () => {
      const { store } = await openWith(open, [{ name: "a" }]);
      const [first, second, ofRun] = [
        await accept(store, { id: "event 1", wamid: "w" }),
        await accept(store, { id: hiddenUuid, wamid: "w" }),
        await accept(store, { runId: "run +54 9 11 5555 0100", id: "event 3" }),
      ];
      const reading = readingOf(store);
      for (const [seq, id] of [
        [first, "event 1"],
        [second, hiddenUuid],
        [ofRun, "event 3"],
      ] as const) {
        expect(await reading.findEvents(shownId("event", id))).toMatchObject([{ seq, id }]);
        const [delivery] = await store.read.deliveries.list({ event: seq, limit: 1 });
        const masked = shownDeliveryId(delivery?.id ?? "");
        expect(masked).toMatch(/^delivery:[0-9a-f]{12}_[0-9a-f]{12}$/);
        expect(await store.read.deliveries.find(masked)).toEqual(delivery);
      }
      expect(await store.read.deliveries.find(`delivery:${maskId("event", "event 1").slice(6)}_000000000000`)).toBeNull();
      const runs = await reading.listRuns({ runId: shownId("run", "run +54 9 11 5555 0100"), limit: 50 });
      expect(runs.data).toMatchObject([{ runId: "run +54 9 11 5555 0100" }]);
      expect(await reading.findEvents("event:000000000000")).toEqual([]);
    });

    test("are purged with their rows", async () => {
      const { store } = await openWith(open, [{ name: "a" }]);
      const [old, known] = [wamidOf("5491155550100", "OLD"), wamidOf("5491155550100", "KNOWN")];
      await store.register([{ account: "main", wamid: known, id: hiddenUuid }], start);
      await settle(store, "a", await accept(store, { wamid: known, id: "event 1" }), delivered);
      await settle(store, "a", await accept(store, { runId: "+54 9 11 5555 0100", id: "event 2" }), delivered);
      await accept(store, { wamid: old, id: "event 3" });
      const last = wamidOf("5491155550100", "LAST");
      const now = start + 400 * day;
      await settle(store, "a", 3, delivered);
      await accept(store, { wamid: last, receivedAt: now });
      await accept(store, { runId: "last", receivedAt: now });
      await purgeAll(store, now);
      const reading = readingOf(store);
      for (const name of [maskWamid(old), maskWamid(known), maskId("message", hiddenUuid)])
        expect(await store.read.messages.find(name)).toEqual([]);
      for (const id of ["event 1", "event 2", "event 3"]) expect(await reading.findEvents(maskId("event", id))).toEqual([]);
      expect((await reading.listRuns({ runId: maskId("run", "+54 9 11 5555 0100"), limit: 50 })).data).toEqual([]);
      expect(await store.read.messages.find(maskWamid(last))).toHaveLength(1);
    });
  });
}
