import { describe, expect, test } from "vitest";
import { failureOf, noRetry, openClient } from "./open-client.ts";
import { jsonAnswer, type ScriptedService, startScripted } from "./scripted-service.ts";

// messaging-service-api.md, "GET /contacts": pages to the letter, served by a few lines that are not the sandbox.

/** An account whose contacts are c01, c02 …; its cursors say nothing about them. */
async function startAccount(contacts: { count: number }): Promise<ScriptedService> {
  return startScripted(({ path }) => {
    const query = new URL(path, "http://x").searchParams;
    const from = Number(query.get("after")?.replace("cursor-", "") ?? 0);
    const limit = Number(query.get("limit"));
    const last = Math.min(contacts.count, from + limit);
    const data = Array.from({ length: last - from }, (_, n) => ({ id: `c${String(from + n + 1).padStart(2, "0")}`, telefono: "+54" }));
    // A full page has a next, even when nothing follows.
    return jsonAnswer(200, JSON.stringify({ data, next: data.length === limit ? `cursor-${last}` : null }));
  });
}

async function idsOf(walk: AsyncIterable<{ id: string }>): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of walk) ids.push(id);
  return ids;
}

const afters = (service: ScriptedService) => service.seen.map(({ path }) => new URL(path, "http://x").searchParams.get("after"));

describe("all contacts", () => {
  test("the last page exactly full: one more call, which is empty, ends it", async () => {
    const service = await startAccount({ count: 6 });
    const walk = openClient(service.baseUrl).client.contacts({ limit: 3 });
    expect(await idsOf(walk)).toEqual(["c01", "c02", "c03", "c04", "c05", "c06"]);
    expect(afters(service)).toEqual([null, "cursor-3", "cursor-6"]);
    expect(walk.savedNext).toBe("cursor-6");
  });

  test("the last page not full: no further call", async () => {
    const service = await startAccount({ count: 7 });
    const walk = openClient(service.baseUrl).client.contacts({ limit: 3 });
    expect(await idsOf(walk)).toHaveLength(7);
    expect(afters(service)).toEqual([null, "cursor-3", "cursor-6"]);
    // The last page had none of its own: the cursor that led to it is what a later walk can use.
    expect(walk.savedNext).toBe("cursor-6");
  });

  test("no contact, and fewer than a page", async () => {
    for (const count of [0, 2]) {
      const service = await startAccount({ count });
      const walk = openClient(service.baseUrl).client.contacts({ limit: 3 });
      expect(await idsOf(walk)).toHaveLength(count);
      expect(walk.savedNext).toBeNull();
      expect(service.seen).toHaveLength(1);
    }
  });

  test("pages have 200 unless said otherwise", async () => {
    const service = await startAccount({ count: 1 });
    await idsOf(openClient(service.baseUrl).client.contacts());
    expect(service.seen[0]?.path).toBe("/api/v1/contacts?limit=200");
  });

  test("a saved next brings the new ones later, and no contact is ever missed", async () => {
    for (let count = 0; count <= 7; count++) {
      const contacts = { count };
      const service = await startAccount(contacts);
      const { client } = openClient(service.baseUrl);
      const walk = client.contacts({ limit: 3 });
      const before = await idsOf(walk);
      contacts.count += 4;
      const later = await idsOf(client.contacts({ limit: 3, after: walk.savedNext }));
      expect(new Set([...before, ...later]).size).toBe(count + 4);
      expect(later).toHaveLength((count % 3) + 4);
      // The same walk, gone on with, does the same.
      expect(await idsOf(walk)).toEqual(later);
    }
  });

  test("left in the middle of a page, the cursor stays before it; of a page dealt with, it is after it", async () => {
    const service = await startAccount({ count: 9 });
    const walk = openClient(service.baseUrl).client.contacts({ limit: 3 });
    for await (const { id } of walk) if (id === "c05") break;
    expect(walk.savedNext).toBe("cursor-3");
    expect(await idsOf(walk)).toEqual(["c04", "c05", "c06", "c07", "c08", "c09"]);
  });

  test("by pages, each with the cursor to save after it", async () => {
    const service = await startAccount({ count: 7 });
    const walk = openClient(service.baseUrl).client.contacts({ limit: 3 });
    const pages: unknown[] = [];
    for await (const page of walk.pages()) pages.push([page.data.length, page.next, page.savedNext, walk.savedNext]);
    expect(pages).toEqual([
      [3, "cursor-3", "cursor-3", null],
      [3, "cursor-6", "cursor-6", "cursor-3"],
      [1, null, "cursor-6", "cursor-6"],
    ]);
  });

  test("an error leaves the walk where it was; it goes on from there", async () => {
    let failsOnce = true;
    const service = await startScripted(({ path }) => {
      if (path.includes("cursor-2") && failsOnce) {
        failsOnce = false;
        return jsonAnswer(500, "");
      }
      const from = path.includes("cursor-4") ? 4 : path.includes("cursor-2") ? 2 : 0;
      const data = ["a", "b", "c", "d", "e"].slice(from, from + 2).map((id) => ({ id }));
      return jsonAnswer(200, JSON.stringify({ data, next: data.length === 2 ? `cursor-${from + 2}` : null }));
    });
    const walk = openClient(service.baseUrl, { retry: noRetry }).client.contacts({ limit: 2 });
    expect(await failureOf(idsOf(walk))).toMatchObject({ kind: "unexpected" });
    expect(await idsOf(walk)).toEqual(["c", "d", "e"]);
  });
});

describe("a service that would have us walk for ever: malformed", () => {
  test.each([
    ["next is the cursor just used", () => "same"],
    ["next goes round in twos", (n: number) => `c${n % 2}`],
    ["next goes round in sevens, after a while", (n: number) => (n < 10 ? `start${n}` : `c${n % 7}`)],
  ])("%s", async (_name, next) => {
    const service = await startScripted((_request, number) => jsonAnswer(200, JSON.stringify({ data: [{ id: "1" }], next: next(number) })));
    const error = await failureOf(idsOf(openClient(service.baseUrl).client.contacts()));
    expect(error).toMatchObject({ kind: "malformed", endpoint: "GET /contacts" });
    expect(service.seen.length).toBeLessThan(60);
  });

  test("an empty page with a next", async () => {
    const service = await startScripted((_request, number) => jsonAnswer(200, `{"data":[],"next":"n${number}"}`));
    expect(await failureOf(idsOf(openClient(service.baseUrl).client.contacts()))).toMatchObject({ kind: "malformed" });
    expect(service.seen).toHaveLength(1);
  });

  test("a next of another type", async () => {
    const service = await startScripted(() => jsonAnswer(200, '{"data":[{"id":"1"}],"next":{}}'));
    expect(await failureOf(idsOf(openClient(service.baseUrl).client.contacts()))).toMatchObject({ kind: "malformed" });
  });
});

test("a contact by phone, in one call; null when there is none", async () => {
  const contact = { id: "9", telefono: "+5491155550000", atributos: { ciudad: "Córdoba" } };
  const service = await startScripted((_request, number) =>
    jsonAnswer(200, JSON.stringify({ data: number === 1 ? [contact] : [], next: null })),
  );
  const { client } = openClient(service.baseUrl);
  expect(await client.findContact("+5491155550000")).toEqual(contact);
  expect(await client.findContact("+54 9 11")).toBeNull();
  expect(service.seen.map(({ path }) => path)).toEqual(["/api/v1/contacts?phone=%2B5491155550000", "/api/v1/contacts?phone=%2B54+9+11"]);
});
