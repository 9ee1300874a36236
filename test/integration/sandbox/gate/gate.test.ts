import type { FastifyInstance } from "fastify";
import { expect, test } from "vitest";
import { z } from "zod";
import { callerOf } from "../../../../src/sandbox/api/app.ts";
import { checked, refused } from "../../../../src/sandbox/api/fault.ts";
import { startGate } from "./start-gate.ts";

const bodySchema = z.object({
  to: z.string().min(6).max(32),
  template: z.object({ id: z.uuid() }).optional(),
  mark: z.string("Tiene que ser tu marca.").optional(),
});

function dummyRoutes(api: FastifyInstance): void {
  api.get("/me", (request) => ({ account: callerOf(request).account.id, key: callerOf(request).key.key }));
  api.post("/messages", (request, reply) => reply.code(201).send(checked(bodySchema, request.body)));
  api.get("/messages/:id", () => {
    throw refused(404, "No existe ese mensaje.");
  });
  api.get("/broken", () => {
    throw new TypeError("a bug");
  });
  api.post("/automations/:id/runs", (request) => request.body ?? null);
}

const noSuchPath = { error: "No existe esa dirección en la API.", cause: null };

test("a route knows who calls", async () => {
  await using gate = await startGate(dummyRoutes);
  gate.add("other", ["k-2"]);
  expect(await gate.call("/api/v1/me", { key: "k-2" })).toMatchObject({ status: 200, body: { account: "other", key: "k-2" } });
  expect(await gate.call("/api/v1/me/")).toMatchObject({ status: 200, body: { account: "main", key: "k-1" } });
});

test("outside the API root there is no gate, and no caller", async () => {
  await using gate = await startGate(dummyRoutes);
  expect(await gate.call("/outside", { key: null })).toMatchObject({ status: 200, body: { outside: true } });
  expect(await gate.call("/nowhere", { key: null })).toMatchObject({ status: 404, body: noSuchPath });
  expect(await gate.call("/api/v10/me", { key: null })).toMatchObject({ status: 404, body: noSuchPath });
  expect(gate.limits.usage(gate.account).apiCalls).toBe(0);
  expect(gate.failures).toEqual([]);
});

test.each(["/api/v1/me", "/api/v1/nowhere", "/api/v1", "/api/v1/", "/api/v1/%zz", `/api/v1/messages/${"x".repeat(500)}`])(
  "%s needs a key, and counts as a call once it has one",
  async (path) => {
    await using gate = await startGate(dummyRoutes);
    const answer = await gate.call(path, { key: "wrong" });
    expect(answer).toMatchObject({ status: 401, body: { error: expect.any(String), cause: null } });
    expect(answer.headers["content-type"]).toMatch(/^application\/json/);
    expect(gate.limits.usage(gate.account).apiCalls).toBe(0);
    const known = await gate.call(path);
    expect(known).toMatchObject(path === "/api/v1/me" ? { status: 200 } : { status: 404, body: noSuchPath });
    expect(gate.limits.usage(gate.account).apiCalls).toBe(1);
    expect(gate.failures).toEqual([]);
  },
);

test("an unknown method on a known path is an unknown path", async () => {
  await using gate = await startGate(dummyRoutes);
  for (const method of ["DELETE", "PATCH", "PROPFIND"]) {
    expect(await gate.call("/api/v1/me", { method })).toMatchObject({ status: 404, body: noSuchPath });
    expect(await gate.call("/api/v1/me", { method, key: null })).toMatchObject({ status: 401 });
  }
  expect(gate.limits.usage(gate.account).apiCalls).toBe(3);
});

test("the account's own words, and a bug's, leave in the service's shape", async () => {
  await using gate = await startGate(dummyRoutes);
  expect((await gate.call("/api/v1/messages/1")).body).toEqual({ error: "No existe ese mensaje.", cause: null });
  expect(gate.failures).toEqual([]);
  const broken = await gate.call("/api/v1/broken");
  expect(broken).toMatchObject({ status: 500, body: { error: expect.stringContaining("inesperado"), cause: null } });
  expect(broken.text).not.toContain("a bug");
  expect(gate.failures).toEqual([new TypeError("a bug")]);
});

test("what a schema finds is listed as JSON text in error.message", async () => {
  await using gate = await startGate(dummyRoutes);
  const post = async (body: unknown) => {
    const { status, body: answer } = await gate.call("/api/v1/messages", { method: "POST", body: JSON.stringify(body) });
    if (status === 201) return answer;
    expect(status).toBe(400);
    expect(Object.keys(answer as object)).toEqual(["error"]);
    const { error } = answer as { error: { message: string } };
    expect(Object.keys(error)).toEqual(["message"]);
    return JSON.parse(error.message);
  };
  expect(await post({ to: "+549112233" })).toEqual({ to: "+549112233" });
  expect(await post({})).toEqual([{ path: ["to"], message: "Falta este campo." }]);
  expect(await post({ to: "+54", template: { id: 7 } })).toEqual([
    { path: ["to"], message: "Tiene que tener por lo menos 6 caracteres." },
    { path: ["template", "id"], message: "Tiene que ser un texto." },
  ]);
  expect(await post({ to: "+549112233", template: { id: "7" } })).toEqual([
    { path: ["template", "id"], message: "Tiene que ser un UUID." },
  ]);
  expect(await post({ to: "+549112233", mark: 1 })).toEqual([{ path: ["mark"], message: "Tiene que ser tu marca." }]);
  expect(await post([])).toEqual([{ path: [], message: "Tiene que ser un objeto." }]);
});

test.each([
  ["broken JSON", { body: "{", headers: {} }, /JSON válido/],
  ["another content type", { body: "to=1", headers: { "content-type": "application/x-www-form-urlencoded" } }, /Content-Type/],
  ["plain text", { body: "{}", headers: { "content-type": "text/plain" } }, /Content-Type/],
])("%s is a validation error", async (_name, { body, headers }, message) => {
  await using gate = await startGate(dummyRoutes);
  const answer = await gate.call("/api/v1/messages", { method: "POST", body, headers });
  expect(answer.status).toBe(400);
  const problems = JSON.parse((answer.body as { error: { message: string } }).error.message);
  expect(problems).toEqual([{ path: [], message: expect.stringMatching(message) }]);
  expect(gate.failures).toEqual([]);
});

test("a POST without a body is one whose fields are missing; where none is needed it is fine", async () => {
  await using gate = await startGate(dummyRoutes);
  for (const headers of [{}, { "content-type": "application/json" }]) {
    const answer = await gate.call("/api/v1/messages", { method: "POST", headers });
    expect(answer).toMatchObject({ status: 400, body: { error: { message: expect.stringContaining("Falta este campo") } } });
    expect((await gate.call("/api/v1/automations/1/runs", { method: "POST", headers })).status).toBe(200);
  }
});

test("a body larger than any message is 413", async () => {
  await using gate = await startGate(dummyRoutes);
  const body = JSON.stringify({ to: "x".repeat(2_000_000) });
  expect(await gate.call("/api/v1/messages", { method: "POST", body })).toMatchObject({ status: 413, body: { cause: null } });
  expect(gate.failures).toEqual([]);
});
