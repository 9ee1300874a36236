import { expect, test } from "vitest";
import { RelayError } from "../../src/model/errors.ts";
import type { OpenSubject } from "./contract-store.ts";
import { openWith } from "./contract-tools.ts";
import { anEvent, start } from "./store-events.ts";

export function groupContract(open: OpenSubject): void {
  const conflict = [{ account: "main", wamid: "taken", reference: "another" }];

  test("a failed write does not fail its neighbors, and stores nothing", async () => {
    const subject = await openWith(open, [{ name: "all" }]);
    await subject.store.register([{ account: "main", wamid: "taken", reference: "first" }], start);
    const before = anEvent({ event: "before.kind", source: "before", wamid: "w" });
    const after = anEvent({ event: "after.kind", source: "after", wamid: "w" });
    const results = await Promise.allSettled([
      subject.store.accept(before),
      // The first of the two is new and fine; together they are one registration.
      subject.store.register([{ account: "main", wamid: "beside" }, ...conflict], start),
      subject.store.accept(after),
      subject.store.accept(before),
      subject.store.register([{ account: "main", wamid: "later" }], start),
    ]);
    expect(results.map(({ status }) => status)).toEqual([
      "fulfilled",
      "rejected",
      "fulfilled",
      "fulfilled",
      "fulfilled",
    ]);
    const [first, refused, second, copy] = results.map((result) =>
      result.status === "fulfilled" ? result.value : result.reason,
    );
    expect(refused).toBeInstanceOf(RelayError);
    expect(refused).toMatchObject({
      code: "conflict",
      details: { reference: { stored: "first", given: "another" } },
    });
    expect(first).toMatchObject({ result: "accepted" });
    expect(second).toMatchObject({ result: "accepted" });
    expect(copy).toMatchObject({ result: "duplicate", seq: (first as { seq: number }).seq });

    const store = await subject.reopen();
    for (const [outcome, word] of [
      [first, "before"],
      [second, "after"],
    ] as const) {
      const event = await store.event((outcome as { seq: number }).seq);
      expect(event).toMatchObject({
        event: `${word}.kind`,
        source: word,
        verdicts: [["all", "deliver"]],
      });
    }
    expect(await store.message("main", "beside")).toBeNull();
    expect(await store.message("main", "later")).toMatchObject({ registeredAt: start });
    expect(await store.message("main", "taken")).toMatchObject({ reference: "first" });
  });
}
