import { z } from "zod";
import { secretSchema } from "../event/secret.ts";
import { isApiKey } from "./api-key.ts";
import { readServiceUrl } from "./service-url.ts";

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
