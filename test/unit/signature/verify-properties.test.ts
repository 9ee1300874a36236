import fc from "fast-check";
import { expect, test } from "vitest";
import { resolveScheme, signatureSettingsSchema } from "../../../src/model/signature.ts";
import {
  receive,
  type Sent,
  secretOf,
  sent,
  settingsArbitrary,
  signatureHeaders,
  signedAtMs,
  verify,
} from "./schemes.ts";

const requestArbitrary: fc.Arbitrary<Sent> = fc.record({
  method: fc.constantFrom("POST", "PUT"),
  url: fc.webPath().map((path) => `/${path.replace(/^\//, "")}`),
  body: fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  id: fc.stringMatching(/^[\x21-\x7e]{1,20}$/),
  timestampMs: fc.integer({ min: 1_000_000_000_000, max: 4_000_000_000_000 }),
});

test("verifies what a sender signs, over all axes, presets and requests", () => {
  fc.assert(
    fc.property(settingsArbitrary, requestArbitrary, (settings, request) => {
      const received = receive(settings, secretOf(settings), request);
      const result = verify(settings, secretOf(settings), received);
      expect(result).toMatchObject({
        ok: true,
        headers: signatureHeaders(settings, secretOf(settings), request),
      });
    }),
    { numRuns: 250 },
  );
});

test("draws settings that are valid in a file", () => {
  fc.assert(
    fc.property(settingsArbitrary, (settings) => {
      const written =
        settings.tolerance === undefined
          ? settings
          : { ...settings, tolerance: `${settings.tolerance}ms` };
      expect(signatureSettingsSchema.parse(written)).toEqual(settings);
    }),
  );
});

test("refuses a body with one bit flipped", () => {
  fc.assert(
    fc.property(settingsArbitrary, fc.nat(), (settings, at) => {
      const received = receive(settings, secretOf(settings));
      const body = Buffer.from(received.body);
      const bit = at % (body.length * 8);
      body[bit >> 3] = (body[bit >> 3] as number) ^ (1 << (bit & 7));
      expect(verify(settings, secretOf(settings), { ...received, body })).toEqual({
        ok: false,
        reason: "no-match",
      });
    }),
    { numRuns: 300 },
  );
});

test("refuses a signed header with one bit flipped in any character", () => {
  fc.assert(
    fc.property(
      settingsArbitrary,
      fc.nat(),
      fc.nat(),
      fc.integer({ min: 0, max: 7 }),
      (settings, which, at, bit) => {
        const received = receive(settings, secretOf(settings));
        const names = Object.keys(signatureHeaders(settings, secretOf(settings), sent));
        const name = names[which % names.length] as string;
        const value = String(received.headers[name]);
        const index = at % value.length;
        const flipped =
          value.slice(0, index) +
          String.fromCharCode(value.charCodeAt(index) ^ (1 << bit)) +
          value.slice(index + 1);
        // A hex digit in the other case is the same signature.
        fc.pre(
          !(
            resolveScheme(settings).encoding === "hex" &&
            flipped.toLowerCase() === value.toLowerCase()
          ),
        );
        expect(
          verify(settings, secretOf(settings), {
            ...received,
            headers: { ...received.headers, [name]: flipped },
          }).ok,
        ).toBe(false);
      },
    ),
    { numRuns: 400 },
  );
});

const valid = String(receive({ service: "acme" }, "right").headers["x-acme-signature"]);
const headerText = fc.oneof(
  fc.string(),
  fc.string({ unit: "binary", maxLength: 400 }),
  fc.stringMatching(/^(sha256=)?[0-9a-fA-F]{60,68}$/),
  fc
    .tuple(
      fc.constantFrom("", "sha256=", "sha1=", " ", "SHA256="),
      fc.constantFrom("", ", ", "=", "\n", valid),
    )
    .map(([a, b]) => a + valid + b),
  fc
    .tuple(fc.nat({ max: 64 }), fc.string({ maxLength: 3 }))
    .map(([at, put]) => valid.slice(0, at) + put + valid.slice(at)),
);

test("accepts exactly one text by default, bare or after sha256=, in either case of hex", () => {
  let verified = 0;
  fc.assert(
    fc.property(headerText, (text) => {
      const result = verify({ service: "acme" }, "right", {
        ...sent,
        headers: { "x-acme-signature": text },
        nowMs: signedAtMs,
      });
      const isRight = text.replace(/^sha256=/, "").toLowerCase() === valid;
      expect(result.ok).toBe(isRight);
      if (isRight) verified += 1;
    }),
    { numRuns: 700 },
  );
  expect(verified).toBeGreaterThan(0);
});

test("never throws and never verifies an unsigned request, whatever the header", () => {
  fc.assert(
    fc.property(
      settingsArbitrary,
      fc.array(headerText, { minLength: 3, maxLength: 3 }),
      (settings, [signature = "", time = "", id = ""]) => {
        const { header, timestamp, idHeader } = resolveScheme(settings);
        const headers: Record<string, string> = { [header]: signature };
        if (timestamp?.in === "header") headers[timestamp.name] = time;
        if (idHeader !== null) headers[idHeader] = id;
        expect(
          verify(settings, secretOf(settings), { ...sent, headers, nowMs: signedAtMs }).ok,
        ).toBe(false);
      },
    ),
    { numRuns: 400 },
  );
});
