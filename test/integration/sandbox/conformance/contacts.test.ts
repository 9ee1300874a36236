// messaging-service-api.md, "Endpoints": GET /contacts and POST /contacts.
import { expect, test } from "vitest";
import { type Account, second, serviceOfFile } from "./harness.ts";
import { expectInvalid, expectProblem, expectUpgrade, uuid } from "./shapes.ts";

const service = await serviceOfFile();

interface Contact {
  readonly id: string;
  readonly phone: string;
}
interface Page {
  readonly data: Contact[];
  readonly next: string | null;
}

/** An account with so many contacts, and their phones in the order of their making. */
async function withContacts(count: number) {
  const account = await service.account();
  return {
    account,
    phones: await addContacts(account, count),
    page: (query: string) => pageOf(account, query),
  };
}

async function addContacts(account: Account, count: number): Promise<string[]> {
  const phones = Array.from({ length: count }, () => service.phone());
  for (const phone of phones)
    await account.box("PUT", `/contacts/${encodeURIComponent(phone)}`, {});
  return phones;
}

async function pageOf(account: Account, query = ""): Promise<Page> {
  const answer = await account.api<Page>("GET", `/contacts${query}`);
  expect(answer.status, answer.text).toBe(200);
  return answer.body;
}

test("GET /contacts: limit is 50 by default, 1 to 200, outside of which it is 400", async () => {
  const { account, page } = await withContacts(201);
  expect((await page("")).data).toHaveLength(50);
  expect((await page("?limit=1")).data).toHaveLength(1);
  expect((await page("?limit=200")).data).toHaveLength(200);
  for (const limit of ["0", "201", "-1", "1.5", "muchos", ""])
    expectProblem(await account.api("GET", `/contacts?limit=${limit}`), "limit");
});

test("GET /contacts: after takes the next of the page before; what is no UUID is 400", async () => {
  const { account, phones, page } = await withContacts(3);
  const first = await page("?limit=2");
  expect(first.next).toMatch(uuid);
  const second = await page(`?limit=2&after=${first.next}`);
  expect([...first.data, ...second.data].map(({ phone }) => phone)).toStrictEqual(phones);
  for (const after of ["2", "abc", `${first.next}0`])
    expectProblem(await account.api("GET", `/contacts?after=${after}`), "after");
});

test("GET /contacts: phone gives a list with that contact, or an empty list, without a walk", async () => {
  const { phones, page } = await withContacts(60);
  // The last one: it is on no first page.
  const last = phones.at(-1) ?? "";
  const found = await page(`?phone=${encodeURIComponent(last)}`);
  expect(found).toStrictEqual({
    data: [expect.objectContaining({ phone: last, id: expect.stringMatching(uuid) })],
    next: null,
  });
  expect(await page(`?phone=${encodeURIComponent(service.phone())}`)).toStrictEqual({
    data: [],
    next: null,
  });
});

test("GET /contacts: the answer is exactly {data, next}", async () => {
  const { page } = await withContacts(1);
  expect(Object.keys(await page("")).sort()).toStrictEqual(["data", "next"]);
  expect(await pageOf(await service.account())).toStrictEqual({ data: [], next: null });
});

test("GET /contacts: ordered by id ascending, new contacts at the end", async () => {
  const { account, phones, page } = await withContacts(5);
  await service.advance(second);
  phones.push(...(await addContacts(account, 3)));
  const { data } = await page("");
  expect(data.map(({ phone }) => phone)).toStrictEqual(phones);
  const ids = data.map(({ id }) => id);
  expect(ids.toSorted()).toStrictEqual(ids);
});

test("GET /contacts: a saved next fetches only the new ones later", async () => {
  const { account, page } = await withContacts(4);
  const saved = (await page(`?limit=2&after=${(await page("?limit=2")).next}`)).next;
  expect(saved).toMatch(uuid);
  expect(await page(`?limit=2&after=${saved}`)).toStrictEqual({ data: [], next: null });
  await service.advance(second);
  const fresh = await addContacts(account, 1);
  const later = await page(`?limit=2&after=${saved}`);
  expect(later.data.map(({ phone }) => phone)).toStrictEqual(fresh);
  expect(later.next).toBeNull();
});

test("GET /contacts: next is null on the last page", async () => {
  const { page } = await withContacts(3);
  expect((await page("?limit=4")).next).toBeNull();
  const first = await page("?limit=2");
  expect(first.next).not.toBeNull();
  const last = await page(`?limit=2&after=${first.next}`);
  expect(last.data).toHaveLength(1);
  expect(last.next).toBeNull();
});

test("GET /contacts: a last page exactly full still has a next, and the call after it gives no data and null", async () => {
  const { phones, page } = await withContacts(4);
  const walked: string[] = [];
  const nexts: (string | null)[] = [];
  let query = "?limit=2";
  for (;;) {
    const { data, next } = await page(query);
    walked.push(...data.map(({ phone }) => phone));
    nexts.push(next);
    if (next === null) break;
    query = `?limit=2&after=${next}`;
  }
  expect(walked).toStrictEqual(phones);
  expect(nexts).toStrictEqual([expect.stringMatching(uuid), expect.stringMatching(uuid), null]);
  // The same with one page in all.
  const only = await page("?limit=4");
  expect(only.next).toMatch(uuid);
  expect(await page(`?limit=4&after=${only.next}`)).toStrictEqual({ data: [], next: null });
});

test("POST /contacts: creates a contact; phone is required, in international format", async () => {
  const account = await service.account();
  const phone = service.phone();
  const made = await account.api<Contact>("POST", "/contacts", { phone });
  expect([200, 201]).toContain(made.status);
  expect((await pageOf(account)).data.map((contact) => contact.phone)).toStrictEqual([phone]);
  expectProblem(await account.api("POST", "/contacts", {}), "phone");
  expectProblem(await account.api("POST", "/contacts", { phone: 5491112345678 }), "phone");
  for (const wrong of ["1112345678", "hola", ""])
    expectInvalid(await account.api("POST", "/contacts", { phone: wrong }));
  expect((await pageOf(account)).data).toHaveLength(1);
});

test("POST /contacts: retry is safe: a contact that exists is updated", async () => {
  const account = await service.account();
  const phone = service.phone();
  await account.api("POST", "/contacts", { phone, name: "Ana" });
  const before = (await pageOf(account)).data;
  const again = await account.api("POST", "/contacts", { phone, name: "Ana María" });
  expect([200, 201]).toContain(again.status);
  const after = (await pageOf(account)).data;
  expect(after).toHaveLength(1);
  expect(after[0]?.id).toBe(before[0]?.id);
  expect(Object.values(before[0] ?? {})).toContain("Ana");
  expect(Object.values(after[0] ?? {})).toContain("Ana María");
});

test("POST /contacts: 402 when the contact limit of the plan is reached, for new contacts only", async () => {
  const account = await service.account({ contactLimit: 2 });
  const phones = [service.phone(), service.phone(), service.phone()];
  const create = (phone = "") => account.api("POST", "/contacts", { phone });
  for (const phone of phones.slice(0, 2)) expect((await create(phone)).status).toBeLessThan(300);
  expectUpgrade(await create(phones[2]), 402, {
    reason: "limit",
    plan: "escala",
    limit: 2,
    used: 2,
    suggested: "enterprise",
  });
  expect((await pageOf(account)).data).toHaveLength(2);
  expect((await create(phones[0])).status).toBeLessThan(300);
});
