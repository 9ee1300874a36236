import { expect, test } from "vitest";
import type { Contact } from "../../../../src/service/endpoints.ts";
import { errorOf, type Meeting, meet, resultOf } from "./meeting.ts";

/** Contacts made beside the API, so that they cost no calls; gives their phones. */
async function populate(meeting: Meeting, count: number): Promise<string[]> {
  const phones = Array.from({ length: count }, () => meeting.phone());
  for (const phone of phones) await meeting.sandbox.control("PUT", `/contacts/${encodeURIComponent(phone)}`, {});
  return phones;
}

const phonesOf = (contacts: readonly Contact[]) => contacts.map((contact) => contact["phone"]);

test.each([
  ["nobody", 0, 1],
  ["a page that is not full", 399, 2],
  // "If the last page has exactly `limit` contacts, `next` still has a value".
  ["a last page that is exactly full", 400, 3],
])("all contacts, 200 at a time: %s", async (_name, count, calls) => {
  const meeting = await meet();
  const phones = await populate(meeting, count);
  const { client } = meeting.join();
  expect(phonesOf(await resultOf(meeting, Array.fromAsync(client.contacts())))).toEqual(phones);
  expect((await meeting.usage()).apiCalls.used).toBe(calls);
});

test("a saved next brings those that came since, also those that come during the walk", async () => {
  const meeting = await meet();
  const first = await populate(meeting, 10);
  const { client } = meeting.join();
  const walk = client.contacts({ limit: 5 });
  expect(phonesOf(await resultOf(meeting, Array.fromAsync(walk)))).toEqual(first);
  const saved = walk.savedNext;
  expect(saved).toMatch(/^[0-9a-f-]{36}$/);

  const second = await populate(meeting, 3);
  const later = client.contacts({ limit: 5, after: saved });
  expect(phonesOf(await resultOf(meeting, Array.fromAsync(later)))).toEqual(second);

  // A page that was not full: its contacts come once more, none is missed.
  const third = await populate(meeting, 4);
  const seen: unknown[] = [];
  const during: string[] = [];
  const walking = (async () => {
    for await (const { data } of client.contacts({ limit: 5, after: later.savedNext }).pages()) {
      seen.push(...phonesOf(data));
      if (during.length === 0) during.push(...(await populate(meeting, 6)));
    }
  })();
  await resultOf(meeting, walking);
  expect(seen).toEqual([...second, ...third, ...during]);
});

test("found by phone, or not; created, and updated by the same call", async () => {
  const meeting = await meet();
  const { client } = meeting.join();
  const phone = meeting.phone();
  expect(await resultOf(meeting, client.findContact(phone))).toBeNull();
  const made = await resultOf(meeting, client.createContact({ phone, name: "Ana" }));
  expect(made).toMatchObject({ phone, name: "Ana" });
  expect(await resultOf(meeting, client.createContact({ phone, name: "Julia" }))).toMatchObject({ id: (made as { id: string }).id });
  expect(await resultOf(meeting, client.findContact(phone))).toMatchObject({ phone, name: "Julia" });
  expect(phonesOf(await resultOf(meeting, Array.fromAsync(client.contacts())))).toEqual([phone]);
});

test("a page out of bounds, a cursor that is none, a phone that is missing: validation", async () => {
  const meeting = await meet();
  const { client } = meeting.join();
  for (const [query, path] of [
    [{ limit: 0 }, "limit"],
    [{ limit: 201 }, "limit"],
    [{ after: "yesterday" }, "after"],
  ] as const) {
    const error = await errorOf(meeting, client.listContacts(query));
    expect(error).toMatchObject({ kind: "validation", status: 400, text: null });
    expect(error.failure).toMatchObject({ problems: [{ path, message: expect.stringMatching(/./) }] });
  }
  expect(await errorOf(meeting, client.createContact({} as never))).toMatchObject({ failure: { problems: [{ path: "phone" }] } });
  expect((await resultOf(meeting, client.listContacts({ limit: 200 }))).data).toEqual([]);
});
