import { z } from "zod";
import { type Secret, secretSchema } from "../event/secret.ts";

/** Where the API is: the origin to connect to, and the path of its root, `{base_url}/api/v1`, without a slash at its end. */
interface ServiceUrl {
  readonly origin: string;
  readonly root: string;
}

/**
 * Reads a base URL, with or without a path and a slash at its end. Throws a TypeError, which does not quote
 * it, when it is no http(s) URL or holds what a base URL cannot: a user, a query, a fragment.
 */
export function readServiceUrl(baseUrl: string): ServiceUrl {
  const url = URL.parse(baseUrl);
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) throw new TypeError("baseUrl is not an http or https URL");
  if (url.username !== "" || url.password !== "") throw new TypeError("baseUrl holds a user or password");
  if (url.search !== "" || url.hash !== "") throw new TypeError("baseUrl holds a query or a fragment");
  return { origin: url.origin, root: `${url.pathname.replace(/\/+$/, "")}/api/v1` };
}

/** Whether a key can go into a header at all: visible ASCII, at least one character, no space (RFC 9110, 5.5). */
export function isApiKey(key: Secret): boolean {
  return /^[\x21-\x7e]+$/.test(key.reveal());
}

function isServiceUrl(text: string): boolean {
  try {
    readServiceUrl(text);
    return true;
  } catch {
    return false;
  }
}

/** Where the service is; the root of its API is `{baseUrl}/api/v1`. What is valid here, the client takes. */
export const baseUrlSchema = z
  .url({ protocol: /^https?$/, abort: true })
  .refine(isServiceUrl, "holds a user, password, query or fragment; the root of the API is {baseUrl}/api/v1");

/** An account's key. What is valid here, the client takes. */
export const apiKeySchema = secretSchema.refine(isApiKey, "holds characters that no header carries (a space or line break at its end?)");
