import { expect, test } from "vitest";
import { answerTo } from "../../../../src/sandbox/api/fault.ts";
import { serviceOfFile } from "../conformance/harness.ts";
import { callPlainly } from "../conformance/plain-http.ts";

const service = await serviceOfFile();

const noSuchPath = { error: "No existe esa dirección en la API.", cause: null };

async function open() {
  const account = await service.account();
  const headers = { authorization: `Bearer ${account.key}` };
  return {
    account,
    /** The path goes out as it is. */
    call: (method: string, path: string, more: Parameters<typeof callPlainly>[2] = {}) =>
      callPlainly(method, service.root + path, {
        ...more,
        headers: { ...headers, ...more.headers },
      }),
    calls: async () => (await account.usage()).apiCalls.used,
  };
}

test("outside the API root there is no gate", async () => {
  const { call, calls } = await open();
  for (const path of ["/nowhere", "/api/v10/me"])
    expect(await call("GET", path)).toMatchObject({ status: 404, body: noSuchPath });
  expect(await calls()).toBe(0);
});

test.each([
  "/api/v1/me/",
  "/api/v1/nowhere",
  "/api/v1",
  "/api/v1/",
  "/api/v1/%zz",
  `/api/v1/messages/${"x".repeat(500)}`,
])("%s needs a key, and counts as a call once it has one", async (path) => {
  const { call, calls } = await open();
  const answer = await call("GET", path, { headers: { authorization: "Bearer wrong" } });
  expect(answer).toMatchObject({ status: 401, body: { error: expect.any(String), cause: null } });
  expect(answer.headers["content-type"]).toMatch(/^application\/json/);
  expect(await calls()).toBe(0);
  expect(await call("GET", path)).toMatchObject(
    path === "/api/v1/me/" ? { status: 200 } : { status: 404, body: noSuchPath },
  );
  expect(await calls()).toBe(1);
});

test("an unknown method on a known path is an unknown path", async () => {
  const { call } = await open();
  for (const method of ["DELETE", "PATCH", "PROPFIND"]) {
    expect(await call(method, "/api/v1/me")).toMatchObject({ status: 404, body: noSuchPath });
  }
});

test("Authorization is Bearer and the key, nothing else", async () => {
  const { account, call } = await open();
  for (const authorization of [
    `bearer ${account.key}`,
    `Bearer ${account.key} ${account.key}`,
    "Bearer ",
  ]) {
    expect((await call("GET", "/api/v1/me", { headers: { authorization } })).status).toBe(401);
  }
});

test("bad keys block an address until a minute after, sliding, and a header does not change whose it is", async () => {
  await service.box("DELETE", "/blocks");
  const { call } = await open();
  const bad = () =>
    call("GET", "/api/v1/me", { headers: { authorization: "", "x-forwarded-for": "127.0.0.9" } });
  for (let count = 0; count < 20; count += 1) {
    expect((await bad()).status).toBe(401);
    await service.advance(2_950);
  }
  expect((await bad()).status).toBe(429);
  // What comes during the block does not count.
  for (let count = 0; count < 20; count += 1) expect((await bad()).status).toBe(429);
  await service.advance(60_000);
  expect((await bad()).status).toBe(401);
});

test("a bug leaves in the service's shape", () => {
  const failures: unknown[] = [];
  const bug = new TypeError("a bug");
  const { status, body } = answerTo(bug, (error) => failures.push(error));
  expect([status, body]).toEqual([
    500,
    { error: expect.stringContaining("inesperado"), cause: null },
  ]);
  expect(failures).toEqual([bug]);
});

test("what a schema finds is listed with its place", async () => {
  const { account } = await open();
  const post = async (body: unknown, path = "/messages") => {
    const answer = await account.api<{ error: { message: string } }>("POST", path, body);
    expect([answer.status, Object.keys(answer.body), Object.keys(answer.body.error)]).toEqual([
      400,
      ["error"],
      ["message"],
    ]);
    return JSON.parse(answer.body.error.message);
  };
  expect(await post({})).toEqual([{ path: ["to"], message: "Falta este campo." }]);
  expect(await post({ to: "+549112233", text: "" })).toEqual([
    { path: ["text"], message: "Demasiado pequeño: se esperaba que texto tuviera >=1 caracteres" },
  ]);
  expect(await post({ to: "+549112233" })).toEqual([
    { path: ["text"], message: "Mandá exactamente uno de text y template." },
  ]);
  expect(await post({ to: "+54", template: { id: 7 } })).toEqual([
    { path: ["to"], message: "Demasiado pequeño: se esperaba que texto tuviera >=6 caracteres" },
    { path: ["template", "id"], message: "Tiene que ser un UUID." },
  ]);
  expect(await post({ to: "+549112233", template: { id: "7" } })).toEqual([
    { path: ["template", "id"], message: "Tiene que ser un UUID." },
  ]);
  expect(await post([])).toEqual([
    { path: [], message: "Entrada inválida: se esperaba objeto, recibido arreglo" },
  ]);
  expect(
    await post({ phone: "+5491122331234", name: 1, attributes: { edad: 30 } }, "/contacts"),
  ).toMatchObject([{ path: ["name"] }, { path: ["attributes", "edad"] }]);
});

test.each([
  ["broken JSON", "{", {}, /JSON válido/],
  [
    "another content type",
    "to=1",
    { "content-type": "application/x-www-form-urlencoded" },
    /Content-Type/,
  ],
  ["plain text", "{}", { "content-type": "text/plain" }, /Content-Type/],
])("%s is a validation error", async (_name, body, headers, message) => {
  const { call } = await open();
  const answer = await call("POST", "/api/v1/messages", { body, headers });
  expect(answer.status).toBe(400);
  const problems = JSON.parse((answer.body as { error: { message: string } }).error.message);
  expect(problems).toEqual([{ path: [], message: expect.stringMatching(message) }]);
});

test("a POST without a body is one whose fields are missing", async () => {
  const { call } = await open();
  for (const headers of [{}, { "content-type": "application/json" }]) {
    const answer = await call("POST", "/api/v1/messages", { headers });
    expect(answer).toMatchObject({
      status: 400,
      body: { error: { message: expect.stringContaining("Falta este campo") } },
    });
  }
});

test("a body larger than any message is 413", async () => {
  const { account } = await open();
  expect(await account.api("POST", "/messages", { to: "x".repeat(2_000_000) })).toMatchObject({
    status: 413,
    body: { cause: null },
  });
});

test("GET /contacts: parameters out of range are named, all at once", async () => {
  const { account } = await open();
  const paths = async (query: string) => {
    const { body } = await account.api<{ error: { message: string } }>("GET", `/contacts?${query}`);
    return JSON.parse(body.error.message).map(({ path }: { path: string[] }) => path.join("."));
  };
  for (const limit of ["ten", "1e2", "+5", "99999999999999999999"])
    expect(await paths(`limit=${encodeURIComponent(limit)}`)).toEqual(["limit"]);
  expect(await paths("limit=1&limit=2")).toEqual(["limit"]);
  for (const after of ["", "01900000-0000-7000-8000"])
    expect(await paths(`after=${after}`)).toEqual(["after"]);
  expect(await paths("limit=0&after=x")).toEqual(["limit", "after"]);
  expect((await account.api("GET", "/contacts?limit=200&other=1")).status).toBe(200);
});
