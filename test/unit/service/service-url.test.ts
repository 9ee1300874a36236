import { expect, test } from "vitest";
import { pathPart } from "../../../src/service/endpoints.ts";
import { baseUrlSchema } from "../../../src/service/settings.ts";

test.each([
  "https://messaging.example",
  "https://messaging.example/",
  "http://127.0.0.1:8090/a/b//",
  "HTTPS://Messaging.Example:443/x y",
])("takes the base URL %s", (baseUrl) => {
  expect(baseUrlSchema.safeParse(baseUrl).success).toBe(true);
});

test("encodes an id as one path segment", () => {
  expect(pathPart("a/b?c#d%ñ")).toBe("a%2Fb%3Fc%23d%25%C3%B1");
});
