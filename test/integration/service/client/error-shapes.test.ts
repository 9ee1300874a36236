import { expect, test } from "vitest";
import type { ServiceError } from "../../../../src/service/errors.ts";
import { failureOf, noRetry, openScripted } from "./open-client.ts";
import { bytesOf } from "./scripted-service.ts";

// Each error shape of messaging-service-api.md, "Errors" and "Responses at the limit", from bytes
// written by hand after the document, so that client and sandbox cannot agree on a mistake.
const json = "content-type: application/json; charset=utf-8";
const upgrade = {
  type: "upgrade",
  reason: "limit",
  resource: "apiCalls",
  plan: "escala",
  limit: 300000,
  used: 300000,
  suggested: "enterprise",
};
const contacts = { ...upgrade, resource: "contacts", limit: 10000, used: 10000, novedad: [1] };

async function answered(
  status: number,
  headers: string,
  body: string,
  call: "sendMessage" | "getMessage" = "sendMessage",
) {
  const { service, client, admission } = await openScripted(
    () => bytesOf(`HTTP/1.1 ${status} Whatever\n${json}\n${headers}`, body),
    {
      retry: noRetry,
    },
  );
  const error: ServiceError = await failureOf(
    call === "sendMessage"
      ? client.sendMessage({ to: "+5491155550000", text: "hola" })
      : client.getMessage("0198-x"),
  );
  expect(service.seen).toHaveLength(1);
  expect(error.failure.kind).toBe(error.kind);
  return { error, settled: admission.settled[0]?.[0] };
}

interface Shape {
  readonly status: number;
  readonly headers?: string;
  readonly text: string | null;
  /** Not given: the text with `cause: null`. */
  readonly body?: string;
  readonly failure: object;
  readonly settled?: object;
}

const perMinute = { retryAfterMs: 60_000, limit: 60, cap: "messages" };
const problems =
  '[{"path":"to","message":"El teléfono tiene que estar en formato internacional"},{"path":["template","variables",0],"message":"Requerido","code":"x"}]';

test.each<Shape>([
  {
    status: 400,
    text: null,
    body: JSON.stringify({ error: { message: problems } }),
    failure: {
      kind: "validation",
      problems: [
        { path: "to", message: "El teléfono tiene que estar en formato internacional" },
        { path: "template.variables.0", message: "Requerido" },
      ],
    },
    settled: { type: "answered" },
  },
  {
    status: 400,
    text: "Mandá text o template, no los dos.",
    failure: { kind: "validation", problems: [] },
  },
  {
    status: 401,
    text: "Falta la clave de API, está mal escrita o fue revocada.",
    failure: { kind: "unauthenticated" },
    settled: { type: "unauthenticated" },
  },
  {
    status: 402,
    text: "Llegaste al límite de contactos de tu plan.",
    body: JSON.stringify({ error: "Llegaste al límite de contactos de tu plan.", cause: contacts }),
    failure: { kind: "plan", cause: contacts },
  },
  {
    status: 409,
    text: "Pasaron más de 24 horas desde el último mensaje del cliente: usá una plantilla.",
    failure: { kind: "conflict" },
  },
  {
    status: 429,
    headers: "Retry-After: 60\nX-RateLimit-Limit: 60",
    text: "Superaste el límite de mensajes por minuto.",
    body: '{"error":"Superaste el límite de mensajes por minuto."}',
    failure: { kind: "rate-limited", ...perMinute },
    settled: { type: "rate-limited", ...perMinute },
  },
  {
    status: 429,
    text: "Usaste todas las llamadas a la API de este mes.",
    body: JSON.stringify({
      error: "Usaste todas las llamadas a la API de este mes.",
      cause: upgrade,
    }),
    failure: { kind: "quota", cause: upgrade, until: Date.parse("2026-12-01T00:00:00-03:00") },
    settled: { type: "quota-used-up", resource: "apiCalls" },
  },
  {
    status: 429,
    text: "Demasiados pedidos con claves inválidas. Probá de nuevo en un minuto.",
    body: '{"error":"Demasiados pedidos con claves inválidas. Probá de nuevo en un minuto."}',
    failure: { kind: "blocked" },
    settled: { type: "blocked" },
  },
  {
    status: 502,
    text: "WhatsApp rechazó el mensaje: la cuenta no tiene medio de pago.",
    failure: { kind: "rejected" },
  },
])(
  "$status: $text",
  async ({
    status,
    headers = "",
    text,
    body = JSON.stringify({ error: text, cause: null }),
    failure,
    settled,
  }) => {
    const got = await answered(status, headers, body);
    const { endpoint, outcome, local, status: read, text: shown, failure: kind } = got.error;
    expect({ endpoint, outcome, local, read, shown, kind }).toEqual({
      endpoint: "POST /messages",
      outcome: "not-done",
      local: false,
      read: status,
      shown: text,
      kind: failure,
    });
    if (settled !== undefined) expect(got.settled).toEqual(settled);
  },
);

test("404", async () => {
  const { error } = await answered(
    404,
    "",
    '{"error":"No encontramos ese mensaje.","cause":null}',
    "getMessage",
  );
  expect(error).toMatchObject({
    kind: "not-found",
    endpoint: "GET /messages/{id}",
    text: "No encontramos ese mensaje.",
    outcome: "not-done",
  });
});

test.each([
  ["sendMessage", null],
  ["getMessage", "requests"],
] as const)("429 of the general per-minute cap of %s", async (call, cap) => {
  const body = '{"error":"Superaste el límite de pedidos por minuto."}';
  const { error } = await answered(429, "Retry-After: 17\nX-RateLimit-Limit: 300", body, call);
  expect(error.failure).toEqual({ kind: "rate-limited", retryAfterMs: 17_000, limit: 300, cap });
});

test.each([
  [upgrade, "apiCalls"],
  [{ type: "upgrade" }, null],
  [{ type: "upgrade", resource: "x".repeat(41) }, null],
  [{ type: "upgrade", resource: 7 }, null],
])(
  "429 of the monthly quota with %j: the limits receive a resource that is a name",
  async (cause, resource) => {
    const { settled } = await answered(429, "", JSON.stringify({ error: "x", cause }));
    expect(settled).toEqual({ type: "quota-used-up", resource });
  },
);

test.each([
  ['{"error":"Algo falló de nuestro lado.","cause":null}', "Algo falló de nuestro lado."],
  ["<h1>Internal Server Error</h1>", null],
  ["", null],
])("500 with %j", async (body, text) => {
  const { error } = await answered(500, "Retry-After: 5", body);
  expect(error).toMatchObject({ outcome: "unknown", text, failure: { kind: "unexpected" } });
});

// A 502 in another shape may be a proxy's.
test.each([
  [502, "<html><h1>502 Bad Gateway</h1></html>", null, "unknown"],
  [502, "", null, "unknown"],
  [502, '{"message":"bad gateway"}', "bad gateway", "unknown"],
  [502, '{"error":"Bad Gateway"}', "Bad Gateway", "unknown"],
  [502, JSON.stringify({ error: "x", cause: upgrade }), "x", "unknown"],
  [418, '{"error":"té"}', "té", "not-done"],
  [503, "busy", null, "unknown"],
])("%i that the document does not have: %j", async (status, body, text, outcome) => {
  expect((await answered(status, "", body)).error).toMatchObject({
    kind: "undocumented",
    status,
    text,
    outcome,
  });
});
