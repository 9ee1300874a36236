import fc from "fast-check";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { parseSettings } from "../../../src/config/load.ts";
import { printableSettings, printSettings } from "../../../src/config/print.ts";
import { durationText, rateText, sizeText } from "../../../src/model/unit-text.ts";
import { durationSchema, rateSchema, sizeSchema } from "../../../src/model/units.ts";

test("units survive printing and reading, whatever the number", () => {
  fc.assert(
    fc.property(fc.nat({ max: 36_500 * 86_400_000 }), fc.nat({ max: 2 ** 50 }), (ms, bytes) => {
      expect(durationSchema.parse(durationText(ms))).toBe(ms);
      expect(sizeSchema.parse(sizeText(bytes))).toBe(bytes);
    }),
  );
  fc.assert(
    fc.property(
      fc.double({ min: 1e-6, max: 1e6, noNaN: true }),
      fc.constantFrom("s", "m", "h"),
      (count, unit) => {
        const rate = rateSchema.parse(`${count.toFixed(10)}1/${unit}`);
        expect(Math.abs(rateSchema.parse(rateText(rate)) / rate - 1)).toBeLessThan(1e-6);
      },
    ),
  );
});

test("prints the largest unit that keeps a whole number", () => {
  expect([0, 1, 1500, 60_000, 86_400_000].map(durationText)).toEqual([
    "0s",
    "1ms",
    "1500ms",
    "1m",
    "1d",
  ]);
  expect([0, 1, 1024, 1.5 * 1024 ** 2].map(sizeText)).toEqual(["0B", "1B", "1KiB", "1536KiB"]);
  expect([50, 5 / 60, 1 / 3600, 0.25].map(rateText)).toEqual(["50/s", "5/m", "1/h", "15/m"]);
});

const text = `
server: { bodyLimit: 2MiB }
control: { tokens: [{ name: a, token: 0123456789abcdef, scopes: [read] }] }
accounts: { m: { baseUrl: "https://api.example/path/", apiKey: key } }
sources:
  s: { account: m, signature: { service: acme, secrets: [one], tolerance: 5m, timestampHeader: x-t, content: "{timestamp}{body}", publicUrl: "https://user:hunter2@relay.example" } }
  f: { account: m, kind: automation-request, mode: proxy, signature: { service: acme, secrets: [two] }, to: { url: "https://f.example" } }
routes:
  - name: r
    match: { where: { a: "5", b: 5, c: null, d: "$\${X}", $or: [{ e: { $gt: 3 } }] } }
    to: { url: "https://a.example/?token=hunter2&x=1", secret: whsec_YWJj, headers: { authorization: Bearer x }, rate: 90/m, timeout: 1500ms }`;

test("what is printed is YAML that loads again as the same settings, but for the secrets", () => {
  const settings = parseSettings(text, "f", {});
  const printed = printSettings(settings);
  // A fingerprint cannot stand for every secret: an API key, which a header carries, has no space
  // in it.
  const again = parseSettings(
    printed.replaceAll(/\[secret \w+\]/g, "another-secret-in-its-place"),
    "printed",
    {},
  );
  expect(printSettings(again).replaceAll(/\[secret \w+\]/g, "")).toBe(
    printed.replaceAll(/\[secret \w+\]/g, ""),
  );
  expect(parse(printed)).toEqual(printableSettings(settings));
});

test("secrets stand as fingerprints, units as in a file, defaults filled in", () => {
  const settings = parseSettings(text, "f", {});
  const printed = printableSettings(settings) as ReturnType<typeof parse>;
  const fingerprint = settings.routes[0]?.to.secret?.fingerprint();
  expect(fingerprint).toMatch(/^[0-9a-f]{12}$/);
  expect(printed.routes[0].to).toMatchObject({
    secret: `[secret ${fingerprint}]`,
    headers: { authorization: expect.stringMatching(/^\[secret \w{12}\]$/) },
    url: "https://a.example/?token=***&x=1",
    rate: "90/m",
    timeout: "1500ms",
    breaker: { failures: 10, pause: "5s", longest: "5m" },
  });
  expect(printed.routes[0].match.where).toEqual({
    a: "5",
    b: 5,
    c: null,
    d: "$${X}",
    $or: [{ e: { $gt: 3 } }],
  });
  expect(printed.server).toMatchObject({ bodyLimit: "2MiB", requestTimeout: "10s", port: 8080 });
  expect(printed.accounts.m.baseUrl).toBe("https://api.example/path/");
  expect(printed.sources.s.signature.publicUrl).toBe("https://***:***@relay.example/");
  expect(printed.sources.s.signature.tolerance).toBe("5m");
  expect(printed.sources.f.to.timeout).toBe("9s");
});
