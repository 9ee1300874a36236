import { z } from "zod";
import { headerName, headerValue } from "../model/secret.ts";
import { hasCredentials, isHttpUrl, isUnixSocket, unixSocketFault } from "../net/addresses.ts";

/** OpenTelemetry traces (docs/how-to/trace-requests.md). */
export const tracesSchema = z.strictObject({
  endpoint: z
    .string()
    .refine((text) => text === "" || isHttpUrl(text), "is not an http or https URL")
    .refine((text) => !isUnixSocket(text), unixSocketFault)
    .refine(
      (text) => !hasCredentials(text),
      "holds a user or password; put them into headers (authorization)",
    )
    .optional()
    .describe(
      "Base URL of an OTLP/HTTP collector; /v1/traces is added unless it is there. Empty: off, so that it can come from a variable.",
    ),
  headers: z
    .record(headerName, headerValue)
    .prefault({})
    .describe("Headers of each export. Values are secrets and never printed."),
  sampleRatio: z
    .number()
    .min(0)
    .max(1)
    .default(1)
    .describe("Share of events that are traced. A sender's own decision comes first."),
  serviceName: z
    .string()
    .min(1)
    .max(255)
    .default("wamid-relay")
    .describe("The service.name of the spans."),
});
export type TracesSettings = z.infer<typeof tracesSchema>;
