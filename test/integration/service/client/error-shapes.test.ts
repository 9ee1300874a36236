import { describe, expect, test } from "vitest";
import type { ServiceError } from "../../../../src/service/errors.ts";
import { failureOf, noRetry, openClient } from "./open-client.ts";
import { bytesOf, startScripted } from "./scripted-service.ts";

// Each error shape of messaging-service-api.md, "Errors" and "Responses at the limit", from bytes written by
// hand after the document, so that client and sandbox cannot agree on a mistake.
const json = "content-type: application/json; charset=utf-8";
const upgrade = `{"type":"upgrade","reason":"limit","resource":"apiCalls","plan":"escala","limit":300000,"used":300000,"suggested":"enterprise"}`;

async function answered(bytes: Buffer, call: "sendMessage" | "getMessage" = "sendMessage"): Promise<ServiceError> {
  const service = await startScripted(() => bytes);
  const { client, admission } = openClient(service.baseUrl, { retry: noRetry });
  const error = await failureOf(
    call === "sendMessage" ? client.sendMessage({ to: "+5491155550000", text: "hola" }) : client.getMessage("0198-x"),
  );
  expect(service.seen).toHaveLength(1);
  lastSettled = admission.settled[0]?.[0];
  return error;
}
let lastSettled: unknown;

function fields(error: ServiceError): unknown {
  const { kind, endpoint, status, text, outcome, local } = error;
  expect(error.failure.kind).toBe(kind);
  return { endpoint, status, text, outcome, local, failure: error.failure };
}

const common = { endpoint: "POST /messages", outcome: "not-done", local: false };

describe("an error of the service, from its bytes:", () => {
  test("400, problems as JSON text inside error.message", async () => {
    const body =
      '{"error":{"message":"[{\\"path\\":\\"to\\",\\"message\\":\\"El teléfono tiene que estar en formato internacional\\"},{\\"path\\":[\\"template\\",\\"variables\\",0],\\"message\\":\\"Requerido\\",\\"code\\":\\"x\\"}]"}}';
    expect(fields(await answered(bytesOf(`HTTP/1.1 400 Bad Request\n${json}`, body)))).toEqual({
      ...common,
      status: 400,
      text: null,
      failure: {
        kind: "validation",
        problems: [
          { path: "to", message: "El teléfono tiene que estar en formato internacional" },
          { path: "template.variables.0", message: "Requerido" },
        ],
      },
    });
    expect(lastSettled).toEqual({ type: "answered" });
  });

  test("400, a text alone", async () => {
    const body = '{"error":"Mandá text o template, no los dos.","cause":null}';
    expect(fields(await answered(bytesOf(`HTTP/1.1 400 Bad Request\n${json}`, body)))).toEqual({
      ...common,
      status: 400,
      text: "Mandá text o template, no los dos.",
      failure: { kind: "validation", problems: [] },
    });
  });

  test("401", async () => {
    const body = '{"error":"Falta la clave de API, está mal escrita o fue revocada.","cause":null}';
    expect(fields(await answered(bytesOf(`HTTP/1.1 401 Unauthorized\n${json}`, body)))).toEqual({
      ...common,
      status: 401,
      text: "Falta la clave de API, está mal escrita o fue revocada.",
      failure: { kind: "unauthenticated" },
    });
    expect(lastSettled).toEqual({ type: "unauthenticated" });
  });

  test("402 with its cause and unknown fields", async () => {
    const body =
      '{"error":"Llegaste al límite de contactos de tu plan.","cause":{"type":"upgrade","reason":"limit","resource":"contacts","plan":"escala","limit":10000,"used":10000,"suggested":"enterprise","novedad":[1]}}';
    expect(fields(await answered(bytesOf(`HTTP/1.1 402 Payment Required\n${json}`, body)))).toEqual({
      ...common,
      status: 402,
      text: "Llegaste al límite de contactos de tu plan.",
      failure: {
        kind: "plan",
        cause: {
          type: "upgrade",
          reason: "limit",
          resource: "contacts",
          plan: "escala",
          limit: 10000,
          used: 10000,
          suggested: "enterprise",
          novedad: [1],
        },
      },
    });
  });

  test("404", async () => {
    const body = '{"error":"No encontramos ese mensaje.","cause":null}';
    expect(fields(await answered(bytesOf(`HTTP/1.1 404 Not Found\n${json}`, body), "getMessage"))).toEqual({
      ...common,
      endpoint: "GET /messages/{id}",
      status: 404,
      text: "No encontramos ese mensaje.",
      failure: { kind: "not-found" },
    });
  });

  test("409", async () => {
    const body = '{"error":"Pasaron más de 24 horas desde el último mensaje del cliente: usá una plantilla.","cause":null}';
    expect(fields(await answered(bytesOf(`HTTP/1.1 409 Conflict\n${json}`, body)))).toEqual({
      ...common,
      status: 409,
      text: "Pasaron más de 24 horas desde el último mensaje del cliente: usá una plantilla.",
      failure: { kind: "conflict" },
    });
  });

  test("429 of the messages' per-minute cap", async () => {
    const head = `HTTP/1.1 429 Too Many Requests\n${json}\nRetry-After: 60\nX-RateLimit-Limit: 60`;
    expect(fields(await answered(bytesOf(head, '{"error":"Superaste el límite de mensajes por minuto."}')))).toEqual({
      ...common,
      status: 429,
      text: "Superaste el límite de mensajes por minuto.",
      failure: { kind: "rate-limited", retryAfterMs: 60_000, limit: 60, cap: "messages" },
    });
    expect(lastSettled).toEqual({ type: "rate-limited", retryAfterMs: 60_000, limit: 60, cap: "messages" });
  });

  test("429 of the general per-minute cap, which the text of a send does not identify", async () => {
    const head = `HTTP/1.1 429 Too Many Requests\n${json}\nRetry-After: 17\nX-RateLimit-Limit: 300`;
    const bytes = bytesOf(head, '{"error":"Superaste el límite de pedidos por minuto."}');
    expect((await answered(bytes)).failure).toEqual({ kind: "rate-limited", retryAfterMs: 17_000, limit: 300, cap: null });
    expect((await answered(bytes, "getMessage")).failure).toEqual({
      kind: "rate-limited",
      retryAfterMs: 17_000,
      limit: 300,
      cap: "requests",
    });
  });

  test("429 of the monthly quota, with the time of its renewal", async () => {
    const body = `{"error":"Usaste todas las llamadas a la API de este mes.","cause":${upgrade}}`;
    expect(fields(await answered(bytesOf(`HTTP/1.1 429 Too Many Requests\n${json}`, body)))).toEqual({
      ...common,
      status: 429,
      text: "Usaste todas las llamadas a la API de este mes.",
      failure: { kind: "quota", cause: JSON.parse(upgrade), until: Date.parse("2026-12-01T00:00:00-03:00") },
    });
    expect(lastSettled).toEqual({ type: "quota-used-up", resource: "apiCalls", serviceTime: null });
  });

  test.each([
    ["Tue, 10 Nov 2026 12:00:03 GMT", Date.UTC(2026, 10, 10, 12, 0, 3)],
    ["yesterday", null],
  ])("429 of the monthly quota with the Date %s: the limits receive the service's time", async (date, serviceTime) => {
    await answered(bytesOf(`HTTP/1.1 429 Too Many Requests\n${json}\ndate: ${date}`, `{"error":"x","cause":${upgrade}}`));
    expect(lastSettled).toEqual({ type: "quota-used-up", resource: "apiCalls", serviceTime });
  });

  test.each([
    ["no resource", {}],
    ["one that is no name", { resource: "x".repeat(41) }],
    ["one of another type", { resource: 7 }],
  ])("429 of a monthly quota with %s: the limits receive none", async (_case, cause) => {
    const body = JSON.stringify({ error: "x", cause: { type: "upgrade", ...cause } });
    await answered(bytesOf(`HTTP/1.1 429 Too Many Requests\n${json}`, body));
    expect(lastSettled).toEqual({ type: "quota-used-up", resource: null, serviceTime: null });
  });

  test("429 of an address blocked for its bad keys", async () => {
    const body = '{"error":"Demasiados pedidos con claves inválidas. Probá de nuevo en un minuto."}';
    expect(fields(await answered(bytesOf(`HTTP/1.1 429 Too Many Requests\n${json}`, body)))).toEqual({
      ...common,
      status: 429,
      text: "Demasiados pedidos con claves inválidas. Probá de nuevo en un minuto.",
      failure: { kind: "blocked" },
    });
    expect(lastSettled).toEqual({ type: "blocked" });
  });

  test("500, whatever its body", async () => {
    for (const [body, text] of [
      ['{"error":"Algo falló de nuestro lado.","cause":null}', "Algo falló de nuestro lado."],
      ["<h1>Internal Server Error</h1>", null],
      ["", null],
    ] as const) {
      expect(fields(await answered(bytesOf("HTTP/1.1 500 Internal Server Error\nRetry-After: 5", body)))).toEqual({
        ...common,
        outcome: "unknown",
        status: 500,
        text,
        failure: { kind: "unexpected", retryAfterMs: 5000 },
      });
    }
  });

  test("502 of the provider", async () => {
    const body = '{"error":"WhatsApp rechazó el mensaje: la cuenta no tiene medio de pago.","cause":null}';
    expect(fields(await answered(bytesOf(`HTTP/1.1 502 Bad Gateway\n${json}`, body)))).toEqual({
      ...common,
      status: 502,
      text: "WhatsApp rechazó el mensaje: la cuenta no tiene medio de pago.",
      failure: { kind: "rejected" },
    });
  });

  test("a 502 in another shape may be a proxy's, so the outcome is unknown", async () => {
    const html = "<html><h1>502 Bad Gateway</h1></html>";
    for (const body of [html, "", '{"message":"bad gateway"}', '{"error":"Bad Gateway"}', `{"error":"x","cause":${upgrade}}`]) {
      expect(await answered(bytesOf("HTTP/1.1 502 Bad Gateway", body))).toMatchObject({
        kind: "undocumented",
        status: 502,
        outcome: "unknown",
      });
    }
  });

  test("a status that the document does not have", async () => {
    const teapot = await answered(bytesOf("HTTP/1.1 418 I'm a teapot", '{"error":"té"}'));
    expect(teapot).toMatchObject({ kind: "undocumented", status: 418, text: "té", outcome: "not-done" });
    expect(await answered(bytesOf("HTTP/1.1 503 Service Unavailable", "busy"))).toMatchObject({
      kind: "undocumented",
      status: 503,
      text: null,
      outcome: "unknown",
    });
  });
});
