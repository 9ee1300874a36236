import { z } from "zod";
import { Secret } from "../model/secret.ts";
import { isHttpUrl, isUnixSocket, unixSocketFault } from "../net/addresses.ts";

function hasCredentials(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && (url.username !== "" || url.password !== "");
}

/** OpenTelemetry traces (docs/how-to/trace-requests.md). */
export const tracesSchema = z.strictObject({
  endpoint: z
    .string()
    .refine((text) => text === "" || isHttpUrl(text), "is not an http or https URL")
    .refine((text) => !isUnixSocket(text), unixSocketFault)
    .refine((text) => !hasCredentials(text), "holds a user or password; put them into headers (authorization)")
    .optional()
    .describe(
      "Base URL of an OTLP/HTTP collector; /v1/traces is added unless it is there. Empty: off, so that it can come from a variable.",
    ),
  headers: z
    .record(
      z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, "is not a header name"),
      z
        .string()
        .regex(/^[\t\x20-\x7e\x80-\xff]*$/, "is not a header value")
        .transform((value) => new Secret(value)),
    )
    .prefault({})
    .describe("Headers of each export. Values are secrets and never printed."),
  sampleRatio: z.number().min(0).max(1).default(1).describe("Share of events that are traced. A sender's own decision comes first."),
  serviceName: z.string().min(1).max(255).default("wamid-relay").describe("The service.name of the spans."),
});
export type TracesSettings = z.infer<typeof tracesSchema>;
