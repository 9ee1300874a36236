import { expect, test } from "vitest";
import { pathPart } from "../../../src/service/endpoints.ts";
import { readServiceUrl } from "../../../src/service/settings.ts";

test.each([
  ["https://messaging.example", "https://messaging.example", "/api/v1"],
  ["https://messaging.example/", "https://messaging.example", "/api/v1"],
  ["http://127.0.0.1:8090/a/b//", "http://127.0.0.1:8090", "/a/b/api/v1"],
  ["HTTPS://Messaging.Example:443/x y", "https://messaging.example", "/x%20y/api/v1"],
])("%s", (baseUrl, origin, root) => {
  expect(readServiceUrl(baseUrl)).toEqual({ origin, root });
});

test.each(["", "messaging.example", "ftp://x", "https://ana:clave@x", "https://x?clave=1", "https://x#clave"])(
  "not a base URL, and not quoted: %s",
  (baseUrl) => {
    expect(() => readServiceUrl(baseUrl)).toThrow(/^baseUrl (is not|holds) [a-z ]+URL$|^baseUrl holds [a-z ]+$/);
  },
);

test("encodes an id as one path segment", () => {
  expect(pathPart("a/b?c#d%ñ")).toBe("a%2Fb%3Fc%23d%25%C3%B1");
});
