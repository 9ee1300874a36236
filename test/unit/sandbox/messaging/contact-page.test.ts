import fc from "fast-check";
import { expect, test } from "vitest";
import { contactPage } from "../../../../src/sandbox/messaging/contacts.ts";
import { createService } from "./service.ts";

function createContacts() {
  const { messaging, world } = createService();
  let made = 0;
  const add = (count: number) => {
    for (let time = 0; time < count; time += 1) messaging.contactFor("main", `+${541_100_000_000 + made++}`);
  };
  return { add, list: () => world.contacts.list("main"), page: (limit: number, after?: string) => pageOf(limit, after) };
  function pageOf(limit: number, after?: string) {
    return contactPage(world.contacts.list("main"), { limit, ...(after === undefined ? {} : { after }) });
  }
}

test("a walk finds every contact once and in order, whatever is added meanwhile, and ends", () => {
  fc.assert(
    fc.property(fc.nat(60), fc.integer({ min: 1, max: 20 }), fc.array(fc.nat(4), { maxLength: 15 }), (count, limit, additions) => {
      const contacts = createContacts();
      contacts.add(count);
      const seen: string[] = [];
      let after: string | undefined;
      for (let calls = 0; ; calls += 1) {
        expect(calls).toBeLessThan(500);
        const page = contacts.page(limit, after);
        expect(page.data.length).toBeLessThanOrEqual(limit);
        seen.push(...page.data.map(({ id }) => id));
        // `next` is null exactly when the page is not full.
        expect(page.next === null).toBe(page.data.length < limit);
        if (page.next === null) break;
        after = page.next;
        contacts.add(additions[calls] ?? 0);
      }
      expect(seen).toEqual(contacts.list().map(({ id }) => id));
      expect(seen).toEqual([...seen].sort());
    }),
    { numRuns: 200 },
  );
});

test("after an id that is nobody's, what is greater follows", () => {
  const contacts = createContacts();
  contacts.add(3);
  expect(contacts.page(10, "00000000-0000-0000-0000-000000000000").data.length).toBe(3);
  expect(contacts.page(10, "ffffffff-ffff-ffff-ffff-ffffffffffff").data).toEqual([]);
});
