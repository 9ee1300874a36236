import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createReading } from "../../src/inspect/reading.ts";
import { maskId, maskWamid, shownDeliveryId, shownId } from "../../src/model/mask.ts";
import type { ContractStore, OpenSubject } from "./contract-store.ts";
import { accept, dead, delivered, openWith, settle } from "./contract-tools.ts";
import { purgeAll } from "./retention-contract.ts";
import { rulesFor, start } from "./store-events.ts";

const day = 86_400_000;
/** Its digits look like a phone number, so logs mask it. */
const hiddenUuid = "00000000-0000-4000-8000-549115551234";

/** A wamid as the service makes it, with the recipient's phone number. */
export function wamidOf(phone: string, name: string): string {
  const head = Buffer.from([0x1c, 0x18, phone.length]);
  return `wamid.${Buffer.concat([head, Buffer.from(`${phone}\x15\x02\0\x11\x18\x08${name}\0`)]).toString("base64")}`;
}

/** `wholeOnly`: as a caller without the scope pii reads. */
const readingOf = ({ read }: ContractStore, wholeOnly = false) => {
  const port = createReading(read, 100);
  return {
    ...port,
    listMessages: (filter: Parameters<typeof port.listMessages>[0]) =>
      port.listMessages(filter, wholeOnly),
    listRuns: (filter: Parameters<typeof port.listRuns>[0]) => port.listRuns(filter, wholeOnly),
    listEvents: (filter: Parameters<typeof port.listEvents>[0]) =>
      port.listEvents(filter, wholeOnly),
    search: (text: string) => port.search(text, wholeOnly),
  };
};

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
        expect(await again.read.findMessages(maskWamid(wamid))).toMatchObject([
          { wamid, account: "main" },
        ]);
      }
      expect(await again.read.findMessages(maskId("message", hiddenUuid))).toMatchObject([
        { wamid: registered },
      ]);
      expect(await again.read.findMessages("wamid:000000000000")).toEqual([]);
      const { data } = await readingOf(again).listEvents({ wamid: maskWamid(seen), limit: 50 });
      expect(data.map((event) => event.seq)).toEqual([seq]);
    });

    test("find the same wamid in every account that has it", async () => {
      const { store } = await openWith(open, [{ name: "a" }]);
      const wamid = wamidOf("5491155550100", "TWICE");
      await accept(store, { wamid });
      await accept(store, { wamid, account: "other" });
      const found = await store.read.findMessages(maskWamid(wamid));
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
        const [delivery] = await store.read.listDeliveries({ event: seq, limit: 1 });
        const masked = shownDeliveryId(delivery?.id ?? "");
        expect(masked).toMatch(/^delivery:[0-9a-f]{12}_[0-9a-f]{12}$/);
        expect(await store.read.findDelivery(masked)).toEqual(delivery);
      }
      expect(
        await store.read.findDelivery(
          `delivery:${maskId("event", "event 1").slice(6)}_000000000000`,
        ),
      ).toBeNull();
      const runs = await reading.listRuns({
        runId: shownId("run", "run +54 9 11 5555 0100"),
        limit: 50,
      });
      expect(runs.data).toMatchObject([{ runId: "run +54 9 11 5555 0100" }]);
      expect(await reading.findEvents("event:000000000000")).toEqual([]);
    });

    test("are purged with their rows", async () => {
      const { store } = await openWith(open, [{ name: "a" }]);
      const [old, known] = [wamidOf("5491155550100", "OLD"), wamidOf("5491155550100", "KNOWN")];
      await store.register([{ account: "main", wamid: known, id: hiddenUuid }], start);
      await settle(store, "a", await accept(store, { wamid: known, id: "event 1" }), delivered);
      await settle(
        store,
        "a",
        await accept(store, { runId: "+54 9 11 5555 0100", id: "event 2" }),
        delivered,
      );
      await accept(store, { wamid: old, id: "event 3" });
      const last = wamidOf("5491155550100", "LAST");
      const now = start + 400 * day;
      await settle(store, "a", 3, delivered);
      await accept(store, { wamid: last, receivedAt: now });
      await accept(store, { runId: "last", receivedAt: now });
      await purgeAll(store, now);
      const reading = readingOf(store);
      for (const name of [maskWamid(old), maskWamid(known), maskId("message", hiddenUuid)])
        expect(await store.read.findMessages(name)).toEqual([]);
      for (const id of ["event 1", "event 2", "event 3"])
        expect(await reading.findEvents(maskId("event", id))).toEqual([]);
      expect(
        (await reading.listRuns({ runId: maskId("run", "+54 9 11 5555 0100"), limit: 50 })).data,
      ).toEqual([]);
      expect(await store.read.findMessages(maskWamid(last))).toHaveLength(1);
    });
  });

  describe("filters", () => {
    const phones = { ana: "5491155550100", ben: "5491155550101", cid: "346001110100" };

    async function filled() {
      const { store } = await openWith(open, [{ name: "a" }]);
      const [ana, ben, cid] = [
        wamidOf(phones.ana, "A"),
        wamidOf(phones.ben, "B"),
        wamidOf(phones.cid, "C"),
      ];
      await store.register(
        [{ account: "main", wamid: ana, id: hiddenUuid, reference: "order-17" }],
        start,
      );
      await store.register([{ account: "main", wamid: ben, reference: "order-18" }], start);
      const seqs = {
        ana: await accept(store, { wamid: ana, status: "failed", errorCode: "131026" }),
        ben: await accept(store, { wamid: ben }),
        cid: await accept(store, { wamid: cid, status: "failed", errorCode: "131047" }),
        run: await accept(store, { runId: "run-5550100" }),
        late: await accept(store, { wamid: ana, status: "read" }),
      };
      return { store, reading: readingOf(store), wamids: { ana, ben, cid }, seqs };
    }

    test("find only whole names for a caller who may not read them in clear", async () => {
      const { store } = await openWith(open, [{ name: "a" }]);
      const phone = "5491155550100";
      const wamid = wamidOf(phone, "ANA");
      await accept(store, { wamid });
      await store.register([{ account: "main", wamid, reference: "tel 5491155550100" }], start);
      await accept(store, { runId: "run-1", id: "of a run" });
      const reading = readingOf(store, true);
      const masked = maskWamid(wamid);
      const found = async (filter: object) =>
        (await reading.listMessages({ limit: 50, ...filter })).data.length;
      for (const part of ["0100", "55550100", "491155550100", "05491155550100"]) {
        expect(await found({ phone: part })).toBe(0);
        expect(await found({ q: part })).toBe(0);
        expect(await found({ q: masked, phone: part })).toBe(0);
        expect((await reading.listEvents({ q: part, limit: 50 })).data).toEqual([]);
        expect((await reading.search(part)).data).toEqual([]);
      }
      for (const part of ["tel", "tel 549115555", "tel 54911555501000"]) {
        expect(await found({ q: part })).toBe(0);
        expect((await reading.search(part)).data).toEqual([]);
      }
      expect(await found({ q: masked, phone })).toBe(1);
      for (const whole of [phone, "+54 9 11 5555-0100", "tel 5491155550100"]) {
        expect(await found({ q: whole })).toBe(1);
        expect((await reading.listEvents({ q: whole, limit: 50 })).data).toHaveLength(1);
        expect((await reading.search(whole)).data).toHaveLength(1);
      }
      expect((await reading.listRuns({ q: "run", limit: 50 })).data).toEqual([]);
      expect((await reading.listRuns({ q: "run-1", limit: 50 })).data).toHaveLength(1);
    });

    test("find messages and events by a user id of Meta, but only by all of it", async () => {
      const { store } = await openWith(open, [{ name: "a" }]);
      // As Meta sends them about people whose number it does not show.
      const wamid =
        "wamid.HBgTVVMuMTAxMjI1Njc5NDczNTQ3MBUUABIYIEE1MEFCNzFBRjUyRTE3OTZFMEI4QjYxMDVGRTg5RDhCAA==";
      const userId = "US.1012256794735470";
      await accept(store, { wamid });
      await accept(store, { wamid: wamidOf("US.2012256794735470", "B") });
      await accept(store, { wamid: wamidOf(phones.ana, "A") });
      for (const reading of [readingOf(store), readingOf(store, true)]) {
        const found = async (q: string) => ({
          messages: (await reading.listMessages({ q, limit: 50 })).data.map((each) => each.wamid),
          events: (await reading.listEvents({ q, limit: 50 })).data.map(
            (each) => each.subject?.key,
          ),
          hits: (await reading.search(q)).data.map(({ id }) => id),
        });
        expect(await found(userId)).toEqual({ messages: [wamid], events: [wamid], hits: [wamid] });
        for (const part of ["5470", "1012256794735470", userId.slice(0, -1), "S.1012256794735470"])
          expect(await found(part)).toEqual({ messages: [], events: [], hits: [] });
      }
    });

    test("find messages by the time of their last change", async () => {
      const { store, reopen } = await openWith(open, [{ name: "a" }]);
      await store.register([{ account: "main", wamid: "old", reference: "same" }], start);
      await store.register([{ account: "main", wamid: "new", reference: "same" }], start + 60_000);
      const reading = readingOf(await reopen());
      const found = async (filter: object) =>
        (await reading.listMessages({ limit: 50, ...filter })).data.map(({ wamid }) => wamid);
      for (const others of [{}, { reference: "same" }, { q: "same" }]) {
        expect(await found({ from: start, ...others })).toEqual(["new", "old"]);
        expect(await found({ from: start + 60_000, ...others })).toEqual(["new"]);
        expect(await found({ to: start + 60_000, ...others })).toEqual(["old"]);
        expect(await found({ from: start + 1, to: start + 60_000, ...others })).toEqual([]);
      }
      expect(await found({ q: "old", from: start + 1 })).toEqual([]);
    });

    test("find messages by name, by the beginning of a reference, and by the end of a phone number", async () => {
      const { reading, wamids } = await filled();
      const found = async (filter: object) =>
        (await reading.listMessages({ limit: 50, ...filter })).data.map(({ wamid }) => wamid);
      expect(await found({})).toEqual([wamids.cid, wamids.ben, wamids.ana]);
      expect(await found({ q: "order-1" })).toEqual([wamids.ben, wamids.ana]);
      expect(await found({ q: "order-17" })).toEqual([wamids.ana]);
      expect(await found({ q: hiddenUuid })).toEqual([wamids.ana]);
      expect(await found({ q: maskWamid(wamids.cid) })).toEqual([wamids.cid]);
      expect(await found({ q: wamids.cid })).toEqual([wamids.cid]);
      expect(await found({ q: "0100" })).toEqual([wamids.cid, wamids.ana]);
      expect(await found({ phone: "0100" })).toEqual([wamids.cid, wamids.ana]);
      expect(await found({ phone: "55550100" })).toEqual([wamids.ana]);
      for (const q of ["+54 9 11 5555-0100", "00 54 9 11 5555-0100"])
        expect(await found({ q })).toEqual([wamids.ana]);
      expect(await found({ q: "0100", phone: "110100" })).toEqual([wamids.cid]);
      expect(await found({ q: "0100", errorCode: "131047" })).toEqual([wamids.cid]);
      expect(await found({ q: "0100", phone: "9999" })).toEqual([]);
      expect(await found({ errorCode: "131026" })).toEqual([wamids.ana]);
      expect(await found({ q: wamids.ana, errorCode: "131047" })).toEqual([]);
      for (const nothing of ["010", "rder-17", "order-170", "%", "9999"])
        expect(await found({ q: nothing })).toEqual([]);
    });

    test("list messages with a status, registered or not, and inbound ones only by name", async () => {
      const { store } = await openWith(open, [{ name: "a" }]);
      const [inbound, outbound] = [wamidOf(phones.ana, "IN"), wamidOf(phones.ana, "OUT")];
      await accept(store, { wamid: inbound, event: "message.received", status: null });
      await accept(store, { wamid: outbound, status: "failed" });
      const reading = readingOf(store);
      const found = async (filter: object) =>
        (await reading.listMessages({ limit: 50, ...filter })).data.map(({ wamid }) => wamid);
      for (const filter of [{}, { status: "failed" }])
        expect(await found(filter)).toEqual([outbound]);
      expect(await found({ phone: "0100" })).toEqual([outbound, inbound]);
    });

    test("find runs by id and by the beginning of a reference", async () => {
      const { reading } = await filled();
      const found = async (q: string) =>
        (await reading.listRuns({ limit: 50, q })).data.map(({ runId }) => runId);
      expect(await found("run-5550100")).toEqual(["run-5550100"]);
      expect(await found(maskId("run", "run-5550100"))).toEqual(["run-5550100"]);
      expect(await found("run-")).toEqual([]);
    });

    test("find events by any name of theirs, their delivery, message or run", async () => {
      const { store, reading, wamids, seqs } = await filled();
      const found = async (filter: object) =>
        (await reading.listEvents({ limit: 50, ...filter })).data.map(({ seq }) => seq);
      const of = { ana: [seqs.late, seqs.ana], cid: [seqs.cid], run: [seqs.run] };
      expect(await found({ errorCode: "131026" })).toEqual([seqs.ana]);
      for (const q of [
        wamids.ana,
        maskWamid(wamids.ana),
        hiddenUuid,
        maskId("message", hiddenUuid),
        "order-17",
        "55550100",
      ]) {
        expect(await found({ q })).toEqual(of.ana);
      }
      expect(await found({ q: "0100" })).toEqual([seqs.late, seqs.cid, seqs.ana]);
      expect(await found({ q: "0100", status: "failed", before: seqs.cid })).toEqual([seqs.ana]);
      expect(await found({ q: "run-5550100" })).toEqual(of.run);
      for (const subject of [wamids.cid, maskWamid(wamids.cid)])
        expect(await found({ subject })).toEqual(of.cid);
      for (const subject of ["run-5550100", maskId("run", "run-5550100")])
        expect(await found({ subject })).toEqual(of.run);
      const { id } = (await store.read.getEvent(seqs.ben)) as { id: string };
      for (const q of [id, shownId("event", id), String(seqs.ben)])
        expect(await found({ q })).toEqual([seqs.ben]);
      const [delivery] = await store.read.listDeliveries({ event: seqs.ben, limit: 1 });
      expect(await found({ q: delivery?.id })).toEqual([seqs.ben]);
      for (const nothing of ["order-1", "010", "order-999"])
        expect(await found({ q: nothing })).toEqual([]);
    });

    test("search names them all, what has exactly the name first", async () => {
      const { store, reading, wamids, seqs } = await filled();
      const found = async (q: string) =>
        (await reading.search(q)).data.map(({ kind, id, seq }) => [
          kind,
          kind === "event" ? seq : id,
        ]);
      expect(await found(maskWamid(wamids.ana))).toEqual([["message", wamids.ana]]);
      expect(await found("order-1")).toEqual([
        ["message", wamids.ben],
        ["message", wamids.ana],
      ]);
      expect(await found(String(seqs.run))).toEqual([["event", seqs.run]]);
      expect(await found("0100")).toEqual([
        ["message", wamids.cid],
        ["message", wamids.ana],
      ]);
      expect(await found("run-5550100")).toEqual([["run", "run-5550100"]]);
      const [delivery] = await store.read.listDeliveries({ event: seqs.ben, limit: 1 });
      expect(await reading.search(delivery?.id ?? "")).toMatchObject({
        data: [
          {
            kind: "delivery",
            id: delivery?.id,
            seq: seqs.ben,
            account: "main",
            label: "a",
            status: "waiting",
            at: start,
          },
        ],
        more: false,
      });
      expect(await reading.search("nothing")).toEqual({ data: [], more: false });
      const one = await reading.search("order-17");
      expect(one).toMatchObject({
        data: [{ label: "order-17", status: "read", at: start }],
        more: false,
      });
    });

    test("find the events of more messages than are read one by one", async () => {
      const { store } = await openWith(open, []);
      const reading = readingOf(store);
      const wamids = Array.from({ length: 130 }, (_, n) => wamidOf(phones.ana, `N${n}`));
      await store.registerEach(
        wamids.map((wamid) => ({ account: "main", wamid, reference: "campaign" })),
        start,
      );
      const accepted = wamids.map((wamid, n) => [
        accept(store, { wamid }),
        accept(store, { wamid: wamidOf(phones.ben, `N${n}`) }),
      ]);
      const seqs = (await Promise.all(accepted.map(([first]) => first))).sort(
        (a = 0, b = 0) => b - a,
      );
      await Promise.all(accepted.flat());
      for (const q of ["campaign", "0100", "+54 9 11 5555 0100"]) {
        expect(await allRows(listOf(reading.listEvents, "seq", { q }))).toEqual(seqs);
      }
      expect(await allRows(listOf(reading.listMessages, "wamid", { q: "camp" }))).toHaveLength(130);
      expect(await reading.search("camp")).toMatchObject({ data: { length: 20 }, more: true });
    });
  });

  describe("pages", () => {
    type Act = {
      readonly do: "accept" | "register" | "run" | "retry";
      readonly of: number;
      readonly status: string;
    };
    const acts: fc.Arbitrary<Act[]> = fc.array(
      fc.record({
        do: fc.constantFrom("accept", "accept", "register", "run", "retry"),
        of: fc.nat(11),
        status: fc.constantFrom("sent", "delivered", "failed"),
      }),
      { maxLength: 8 },
    );

    test("have each row once, and miss none, while rows are added and change", async () => {
      await fc.assert(
        fc.asyncProperty(
          acts,
          fc.array(acts, { minLength: 4, maxLength: 12 }),
          fc.integer({ min: 1, max: 4 }),
          async (first, later, limit) => {
            const subject = await open(
              rulesFor([{ name: "a" }, { name: "b", emit: "transitions" }]),
            );
            try {
              await readWhileWriting(subject.store, first, later, limit);
            } finally {
              await subject.end();
            }
          },
        ),
        { numRuns: 8 },
      );
    });

    async function act(store: ContractStore, { do: what, of, status }: Act): Promise<void> {
      const wamid = wamidOf(of % 2 === 0 ? "5491155550100" : "5491155550101", `M${of}`);
      if (what === "accept")
        await accept(store, { wamid, status, errorCode: status === "failed" ? "131026" : null });
      if (what === "run") await accept(store, { runId: `run-${of}` });
      if (what === "register")
        await store.registerEach([{ account: "main", wamid, reference: `order-${of % 3}` }], start);
      const [waiting] =
        what === "retry" ? await store.read.listDeliveries({ state: "waiting", limit: 1 }) : [];
      if (waiting !== undefined)
        await settle(store, waiting.route, waiting.event, of % 2 === 0 ? delivered : dead);
    }

    async function readWhileWriting(
      store: ContractStore,
      first: readonly Act[],
      later: readonly Act[][],
      limit: number,
    ): Promise<void> {
      for (const one of [...first, ...first]) await act(store, one);
      const reading = readingOf(store);
      const lists = [
        ...[{}, { errorCode: "131026" }, { q: "0100" }, { q: "order-1" }].map((filter) =>
          listOf(reading.listEvents, "seq", filter),
        ),
        ...[{}, { phone: "0100" }, { q: "0100" }, { q: "order-" }].map((filter) =>
          listOf(reading.listMessages, "wamid", filter),
        ),
        listOf(reading.listRuns, "runId"),
        listOf(reading.listDeliveries, "id"),
      ];
      const read = lists.map(() => ({
        rows: [] as unknown[],
        next: undefined as number | string | null | undefined,
      }));
      const atStart = await Promise.all(lists.map((list) => list(undefined, 1_000)));
      for (let turn = 0; read.some(({ next }) => next !== null); turn += 1) {
        for (const [index, list] of lists.entries()) {
          const one = read[index];
          if (one === undefined || one.next === null) continue;
          const page = await list(one.next, limit);
          one.rows.push(...page.rows);
          one.next = page.next;
        }
        for (const one of later[turn] ?? []) await act(store, one);
      }
      const atEnd = await Promise.all(lists.map((list) => list(undefined, 1_000)));
      for (const [index, { rows }] of read.entries()) {
        expect(new Set(rows).size).toBe(rows.length);
        expect(rows).toEqual(expect.arrayContaining(atStart[index]?.rows ?? []));
        // In the order of the list.
        expect(rows).toEqual(atEnd[index]?.rows.filter((row) => rows.includes(row)));
      }
    }
  });
}

type Before = number | string | null | undefined;

/** Reads a page of a list, newest first, as what names its rows. */
const listOf =
  (
    list: (query: never) => Promise<{ readonly data: readonly object[]; readonly next: Before }>,
    name: string,
    filter: object = {},
  ) =>
  async (before: Before, limit: number) => {
    const { data, next } = await list({ ...filter, before, limit } as never);
    return { rows: data.map((row) => row[name as never] as unknown), next };
  };

/** All rows of a list, in pages. */
async function allRows(list: ReturnType<typeof listOf>): Promise<unknown[]> {
  const all: unknown[] = [];
  for (let before: Before; before !== null; ) {
    const { rows, next } = await list(before, 40);
    all.push(...rows);
    before = next;
  }
  return all;
}
