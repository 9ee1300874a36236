import { inspect } from "node:util";
import pino from "pino";
import { expect, test } from "vitest";
import { freePort } from "../../../setup/free-port.ts";
import { apiKey, failureOf, noRetry, openClient, openScripted } from "./open-client.ts";
import { bytesOf, jsonAnswer, startScripted } from "./scripted-service.ts";

const phone = "+5491155550000";
const wamid = "wamid.HBgNNTQ5MTE1NTU1MDAwMBUCABEYEkE5";

function everyText(error: Error): string {
  const lines: string[] = [];
  const log = pino({ level: "info" }, { write: (line: string) => void lines.push(line) });
  log.error({ err: error }, "failed");
  log.error({ failure: error }, "failed");
  return [
    String(error),
    error.message,
    error.stack,
    inspect(error, { depth: 9, showHidden: true }),
    JSON.stringify(error),
    inspect({ ...error }),
    ...lines,
  ].join("\n");
}

// DESIGN.md, promise 8: what an error shows by itself has no key, no phone, no wamid; its text is
// there for who asks.
test.each([
  [
    "a text of the service",
    jsonAnswer(409, JSON.stringify({ error: `El número ${phone} (${wamid}) no escribió` })),
  ],
  [
    "a problem of validation",
    jsonAnswer(
      400,
      JSON.stringify({
        error: { message: JSON.stringify([{ path: "to", message: `${phone} no sirve` }]) },
      }),
    ),
  ],
  ["broken JSON", jsonAnswer(201, `{"wamid":"${wamid}", ${phone}`)],
  [
    "another shape",
    jsonAnswer(
      201,
      JSON.stringify({ id: 5, wamid: [wamid], to: phone, [phone]: { [wamid]: 1 }, echo: apiKey }),
    ),
  ],
  ["not HTTP", Buffer.from(`HTTP/9 ${phone} ${wamid} ${apiKey}\r\n\r\n`)],
  [
    "a proxy that echoes",
    bytesOf("HTTP/1.1 502 Bad Gateway", `${phone} ${wamid} Bearer ${apiKey}`),
  ],
  [
    "a redirect",
    bytesOf(`HTTP/1.1 302 Found\nlocation: /?to=${phone}&wamid=${wamid}&key=${apiKey}`),
  ],
])("%s", async (_name, bytes) => {
  const { client } = await openScripted(() => bytes, { retry: noRetry });
  const texts = everyText(await failureOf(client.sendMessage({ to: phone, text: wamid })));
  expect(texts).toContain("POST /messages");
  for (const secret of [apiKey, phone, phone.slice(1), wamid]) expect(texts).not.toContain(secret);
});

test("no connection", async () => {
  const { client } = openClient(`http://127.0.0.1:${await freePort()}`, { retry: noRetry });
  const texts = everyText(await failureOf(client.getMessage(phone)));
  expect(texts).toContain("GET /messages/{id}: no answer (ECONNREFUSED)");
  for (const secret of [apiKey, phone.slice(1)]) expect(texts).not.toContain(secret);
});

test("keeps the service's text unchanged for callers", async () => {
  const text = `El número ${phone} no escribió en las últimas 24 horas — usá una plantilla`;
  const service = await startScripted(() => jsonAnswer(409, JSON.stringify({ error: text })));
  const error = await failureOf(
    openClient(service.baseUrl).client.sendMessage({ to: phone, text: "x" }),
  );
  expect(error.text).toBe(text);
  expect(inspect(error)).toContain("El número [phone] no escribió");
});

test.each([
  [409, { error: `${apiKey} ☃` }],
  [400, { error: { message: JSON.stringify([{ path: apiKey, message: `Bearer ${apiKey}` }]) } }],
  [402, { error: "x", cause: { type: "upgrade", reason: apiKey, [apiKey]: 1 } }],
])("callers do not get a key that a %i echoes", async (status, body) => {
  const { client } = await openScripted(() => jsonAnswer(status, JSON.stringify(body)), {
    retry: noRetry,
  });
  const { text, failure } = await failureOf(client.sendMessage({ to: phone, text: "x" }));
  expect(JSON.stringify([text, failure])).toContain("[secret]");
  expect(JSON.stringify([text, failure])).not.toContain(apiKey);
  if (status === 409) expect(text).toBe("[secret] ☃");
});

test("a client never prints its key", () => {
  const { client } = openClient("http://127.0.0.1:9");
  expect(inspect(client, { depth: 9, showHidden: true })).not.toContain(apiKey);
});
