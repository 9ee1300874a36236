import { z } from "zod";
import { type Secret, secretSchema } from "../model/secret.ts";
import { isUnixSocket, unixSocketFault } from "../net/addresses.ts";

/** Visible ASCII, at least one character (RFC 9110, 5.5). */
export function isApiKey(key: Secret): boolean {
  return /^[\x21-\x7e]+$/.test(key.reveal());
}

function isServiceUrl(text: string): boolean {
  const { username, password, search, hash } = new URL(text);
  return `${username}${password}${search}${hash}` === "";
}

export const baseUrlSchema = z
  .url({ protocol: /^https?$/, abort: true })
  .refine((text) => !isUnixSocket(text), unixSocketFault)
  .refine(
    isServiceUrl,
    "holds a user, password, query or fragment; the root of the API is {baseUrl}/api/v1",
  );

/** The plans that have an API at all (messaging-service-api.md, "Limits"). */
export const planSchema = z.enum(["escala", "enterprise"]);
export type Plan = z.infer<typeof planSchema>;

export const apiKeySchema = secretSchema.refine(
  isApiKey,
  "holds characters that no header carries (a space or line break at its end?)",
);
