import { expect, test } from "vitest";
import { pathPart } from "../../../src/service/endpoints.ts";
import { apiKeySchema, baseUrlSchema } from "../../../src/service/settings.ts";

test.each(["https://messaging.example", "https://messaging.example/", "http://127.0.0.1:8090/a/b//", "HTTPS://Messaging.Example:443/x y"])(
  "takes the base URL %s",
  (baseUrl) => {
    expect(baseUrlSchema.safeParse(baseUrl).success).toBe(true);
  },
);

test.each(["", "messaging.example", "ftp://x", "https://ana:clave@x", "https://x?clave=1", "https://x#clave"])(
  "refuses what is not a base URL, and does not quote it: %s",
  (baseUrl) => {
    const { error } = baseUrlSchema.safeParse(baseUrl);
    expect(error).toBeDefined();
    expect(error?.message).not.toContain("clave");
  },
);

test("encodes an id as one path segment", () => {
  expect(pathPart("a/b?c#d%ñ")).toBe("a%2Fb%3Fc%23d%25%C3%B1");
});

test.each(["sk_live\r\nx: y", "clave secreta", "ñ", ""])("refuses a key that no header carries, and does not quote it: %j", (key) => {
  const { error } = apiKeySchema.safeParse(key);
  expect(error).toBeDefined();
  expect(error?.message).not.toMatch(/sk_live|clave|ñ/);
});
