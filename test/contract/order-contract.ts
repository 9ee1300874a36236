import { expect, test } from "vitest";
import type { OpenSubject } from "./contract-store.ts";
import { accept, dead, delivered, later, openWith, settle, stateOf } from "./contract-tools.ts";
import { rulesFor, start } from "./store-events.ts";

const routes = [{ name: "ordered" }, { name: "other" }, { name: "loose", order: "none" }] as const;

export function orderContract(open: OpenSubject): void {
  test("a later delivery of a message waits until the earlier one is delivered or dead", async () => {
    const subject = await openWith(open, routes);
    const seqs: number[] = [];
    for (const status of ["sent", "delivered", "read"])
      seqs.push(await accept(subject.store, { wamid: "w", status }));
    const [one, two, three] = seqs as [number, number, number];
    expect(await subject.store.due("ordered", start, 10)).toEqual([one]);
    expect(await stateOf(subject.store, two, "ordered")).toBe("held");
    expect(await subject.store.load("ordered", two)).toBeNull();

    expect(await settle(subject.store, "ordered", one, later(start + 50))).toBeNull();
    expect(await subject.store.due("ordered", start + 49, 10)).toEqual([]);
    expect(await stateOf(subject.store, two, "ordered")).toBe("held");

    const store = await subject.reopen();
    expect(await settle(store, "ordered", one, dead, { at: start + 60 })).toBe(two);
    expect(await store.due("ordered", start + 60, 10)).toEqual([two]);
    expect(await settle(store, "ordered", two, delivered, { at: start + 70 })).toBe(three);
    expect(await settle(store, "ordered", three, delivered, { at: start + 80 })).toBeNull();
    expect(await store.due("ordered", start + 1_000, 10)).toEqual([]);
    // Once all are settled, a new one goes out at once.
    const four = await accept(store, { wamid: "w", status: "read" });
    expect(await stateOf(store, four, "ordered")).toBe("waiting");
  });

  test("holds back only the same message on the same route", async () => {
    const { store } = await openWith(open, routes);
    const first = await accept(store, { wamid: "w" });
    const others = [
      await accept(store, { wamid: "v" }),
      await accept(store, { wamid: "w", account: "other" }),
      await accept(store, { runId: "w" }),
      await accept(store, { event: "contact.created" }),
      await accept(store, { event: "contact.created" }),
    ];
    const second = await accept(store, { wamid: "w", status: "read" });
    const secondRun = await accept(store, { runId: "w", event: "automation.failed" });
    expect(await store.due("ordered", start, 10)).toEqual([first, ...others]);
    expect(await store.due("loose", start, 20)).toEqual([first, ...others, second, secondRun]);
    expect(await settle(store, "other", first, delivered)).toBe(second);
    expect(await stateOf(store, second, "ordered")).toBe("held");
    expect(await settle(store, "loose", first, delivered)).toBeNull();
  });

  test("a route without order sends new deliveries at once, and releases held ones", async () => {
    const subject = await openWith(open, [{ name: "all" }]);
    const one = await accept(subject.store, { wamid: "w" });
    const two = await accept(subject.store, { wamid: "w" });
    const store = await subject.reopen(rulesFor([{ name: "all", order: "none" }]));
    const three = await accept(store, { wamid: "w" });
    expect(await store.due("all", start, 10)).toEqual([one, three]);
    expect(await settle(store, "all", one, delivered)).toBe(two);
    expect(await settle(store, "all", three, delivered)).toBeNull();
    expect(await store.due("all", start, 10)).toEqual([two]);
  });
}
