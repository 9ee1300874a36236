import fc from "fast-check";
import { expect, test } from "vitest";
import { NotARequest, parseRawRequest } from "../../../src/cli/verify/captured.ts";

const head =
  "POST /webhooks/main?a=1 HTTP/1.1\r\nHost: relay.example\r\nX-Twice: a\r\nx-twice:b \r\n";

test("parses request line, headers and body byte for byte", () => {
  const body = Buffer.from([0, 13, 10, 13, 10, 255]);
  expect(parseRawRequest(Buffer.concat([Buffer.from(`${head}\r\n`), body]))).toEqual({
    method: "POST",
    url: "/webhooks/main?a=1",
    headers: { host: "relay.example", "x-twice": "a, b" },
    body,
  });
});

test("ends the body at Content-Length, and refuses a length beyond the end", () => {
  expect(parseRawRequest(Buffer.from(`${head}Content-Length: 2\r\n\r\n{}\n`)).body.toString()).toBe(
    "{}",
  );
  expect(() => parseRawRequest(Buffer.from(`${head}Content-Length: 3\r\n\r\n{}`))).toThrow(
    NotARequest,
  );
});

test("joins chunks, and keeps a body that is already joined", () => {
  const chunked = `${head}Transfer-Encoding: chunked\r\n\r\n`;
  expect(
    parseRawRequest(
      Buffer.from(`${chunked}3\r\n{"a\r\n4;x=y\r\n":1}\r\n0\r\n\r\n`),
    ).body.toString(),
  ).toBe('{"a":1}');
  expect(parseRawRequest(Buffer.from(`${chunked}{"a":1}`)).body.toString()).toBe('{"a":1}');
  expect(() => parseRawRequest(Buffer.from(`${chunked}3\r\n{"a\r\n4\r\n":`))).toThrow(NotARequest);
});

test("parses any bytes or throws NotARequest", () => {
  const text = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.string(),
    fc.constantFrom("0\r\n\r\n", "ffffffff\r\n", "3\r\nabc"),
  );
  fc.assert(
    fc.property(
      text,
      fc.constantFrom("", head, `${head}\r\n`, `${head}Transfer-Encoding: chunked\r\n\r\n`),
      (rest, start) => {
        try {
          expect(parseRawRequest(Buffer.from(start + rest)).method).toMatch(/^[A-Za-z]+$/);
        } catch (error) {
          expect(error).toBeInstanceOf(NotARequest);
        }
      },
    ),
  );
});
