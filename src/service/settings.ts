import { z } from "zod";
import { type Secret, secretSchema } from "../model/secret.ts";
import { isUnixSocket, unixSocketFault } from "../net/addresses.ts";

/** Throws a TypeError, which does not quote it, unless it is an http(s) URL without user, query and fragment. */
export function readServiceUrl(baseUrl: string) {
  const url = URL.parse(baseUrl);
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) throw new TypeError("baseUrl is not an http or https URL");
  if (url.username !== "" || url.password !== "") throw new TypeError("baseUrl holds a user or password");
  if (url.search !== "" || url.hash !== "") throw new TypeError("baseUrl holds a query or a fragment");
  return { origin: url.origin, root: `${url.pathname.replace(/\/+$/, "")}/api/v1` };
}

/** Visible ASCII, at least one character (RFC 9110, 5.5). */
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

export const baseUrlSchema = z
  .url({ protocol: /^https?$/, abort: true })
  .refine((text) => !isUnixSocket(text), unixSocketFault)
  .refine(isServiceUrl, "holds a user, password, query or fragment; the root of the API is {baseUrl}/api/v1");

/** The plans that have an API at all (messaging-service-api.md, "Limits"). */
export const planSchema = z.enum(["escala", "enterprise"]);
export type Plan = z.infer<typeof planSchema>;

export const apiKeySchema = secretSchema.refine(isApiKey, "holds characters that no header carries (a space or line break at its end?)");
