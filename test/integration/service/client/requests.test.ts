import { expect, test } from "vitest";
import { apiKey, openClient } from "./open-client.ts";
import { jsonAnswer, startScripted } from "./scripted-service.ts";

const id = "0198f1aa-0000-8000-8000-00000000000a";

/**
 * What the service answers, by method and path; fields that nobody has told us about among them.
 */
const answers: Record<string, string> = {
  "POST /messages": `{"id":"${id}","wamid":"wamid.HBgN","status":"pending","conversationId":"c","precio":0.1}`,
  [`GET /messages/${id}`]: `{"id":"${id}","wamid":"wamid.HBgN","status":"failed","conversationId":"c","errorCode":"131026","intentos":[1,{"a":null}]}`,
  "GET /me": `{"cuenta":"Ñandú","plan":{"id":"escala"}}`,
  "POST /automations/a%2Fb/runs": `{"runId":"${id}","estado":"en curso"}`,
};

const startAnswering = (root: string) =>
  startScripted(({ method, path }) => {
    const answer = path.startsWith(root)
      ? answers[`${method} ${path.slice(root.length).split("?")[0]}`]
      : undefined;
    return answer === undefined
      ? jsonAnswer(404, '{"error":"No existe"}')
      : jsonAnswer(method === "POST" ? 201 : 200, answer);
  });

test("sends each endpoint's request, and returns the answer unchanged", async () => {
  const service = await startAnswering("/api/v1");
  const { client, admission } = openClient(service.baseUrl);
  const answer = (name: string) => JSON.parse(answers[name] as string) as Record<string, unknown>;
  const send = {
    to: "+5491155550000",
    template: { id, variables: { nombre: "Ñata" } },
    phoneNumberId: "77",
  };

  expect(await client.sendMessage(send)).toEqual(answer("POST /messages"));
  expect(await client.getMessage(id)).toEqual(answer(`GET /messages/${id}`));
  expect(await client.me()).toEqual(answer("GET /me"));
  expect(await client.startRun("a/b", { phone: "+54911", data: { pedido: "12" } })).toEqual(
    answer("POST /automations/a%2Fb/runs"),
  );

  expect(
    service.seen.map(({ method, path, body }) => [
      method,
      path,
      body === "" ? null : (JSON.parse(body) as unknown),
    ]),
  ).toEqual([
    ["POST", "/api/v1/messages", send],
    ["GET", `/api/v1/messages/${id}`, null],
    ["GET", "/api/v1/me", null],
    ["POST", "/api/v1/automations/a%2Fb/runs", { phone: "+54911", data: { pedido: "12" } }],
  ]);
  for (const { method, headers } of service.seen) {
    expect(headers["authorization"]).toBe(`Bearer ${apiKey}`);
    expect(headers["content-type"]).toBe(method === "POST" ? "application/json" : undefined);
  }
  expect(admission.entered.map(({ operation }) => operation)).toEqual([
    "messages",
    "reads",
    "reads",
    "runs",
  ]);
  expect(admission.settled).toEqual(Array(4).fill([{ type: "answered" }]));
});

test("a base URL may have a path and slashes at its end", async () => {
  const service = await startAnswering("/servicio/ar/api/v1");
  for (const end of ["/servicio/ar", "/servicio/ar/", "/servicio/ar//"]) {
    expect(await openClient(`${service.baseUrl}${end}`).client.me()).toMatchObject({
      cuenta: "Ñandú",
    });
  }
});

test("rejects an id that would change the path, before it sends anything", async () => {
  const service = await startAnswering("/api/v1");
  const { client, admission } = openClient(service.baseUrl);
  for (const bad of ["", ".", ".."]) {
    await expect(client.getMessage(bad)).rejects.toThrow(TypeError);
    await expect(client.startRun(bad)).rejects.toThrow(TypeError);
  }
  await client.getMessage("../me?x#y").catch(() => {});
  expect(service.seen.map(({ path }) => path)).toEqual(["/api/v1/messages/..%2Fme%3Fx%23y"]);
  expect(admission.entered).toHaveLength(1);
});
