import { expect, test } from "vitest";
import { problemsOf, startApi } from "./api.ts";

const phone = "+5491122331234";

test("POST /contacts: 201 for a new one, 200 for one that is updated", async () => {
  await using api = await startApi();
  const made = await api.post("/contacts", { phone, name: "Ana", attributes: { ciudad: "Salta" } });
  expect(made).toEqual({
    status: 201,
    body: {
      id: expect.any(String),
      phone,
      name: "Ana",
      attributes: { ciudad: "Salta" },
      conversationId: expect.any(String),
      createdAt: "2026-11-21T12:00:00.000Z",
    },
  });
  const updated = await api.post("/contacts", { phone: "+54 9 11 2233-1234", attributes: { pedido: "7" } });
  expect(updated).toEqual({ status: 200, body: { ...(made.body as object), attributes: { ciudad: "Salta", pedido: "7" } } });
  expect(api.world.contacts.size).toBe(1);
  expect((await api.post("/contacts", { phone }, "k-other")).status).toBe(201);
});

test("POST /contacts: what is missing or wrongly typed is named; no phone is a text of its own; the limit 402", async () => {
  await using api = await startApi();
  const fields = async (body: unknown) => problemsOf(await api.post("/contacts", body)).map((problem) => problem.split(":")[0]);
  expect(await fields({})).toEqual(["phone"]);
  expect(await fields({ phone: 54911 })).toEqual(["phone"]);
  expect(await fields({ phone, name: 1, attributes: { edad: 30 } })).toEqual(["name", "attributes.edad"]);
  expect(await api.post("/contacts", { phone: "1122334455" })).toEqual({
    status: 400,
    body: { error: expect.stringMatching(/formato internacional/), cause: null },
  });
  await api.post("/contacts", { phone });
  api.account.contactLimit = 1;
  expect(await api.post("/contacts", { phone: "+5491122335678" })).toMatchObject({
    status: 402,
    body: { cause: { resource: "contacts" } },
  });
  expect((await api.post("/contacts", { phone, name: "Ana" })).status).toBe(200);
});

test("GET /contacts: parameters out of range are 400 and named", async () => {
  await using api = await startApi();
  for (const limit of ["0", "201", "-1", "1.5", "ten", "", "1e2", "+5", "99999999999999999999"]) {
    expect(problemsOf(await api.get(`/contacts?limit=${encodeURIComponent(limit)}`))).toEqual([expect.stringMatching(/^limit: .*[a-z]/)]);
  }
  expect(problemsOf(await api.get("/contacts?limit=1&limit=2"))).toEqual([expect.stringMatching(/^limit: /)]);
  for (const after of ["", "abc", "01900000-0000-7000-8000"]) {
    expect(problemsOf(await api.get(`/contacts?after=${after}`))).toEqual([expect.stringMatching(/^after: /)]);
  }
  expect(problemsOf(await api.get("/contacts?limit=0&after=x")).length).toBe(2);
  expect((await api.get("/contacts?limit=200&other=1")).status).toBe(200);
});
