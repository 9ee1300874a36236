import type { FastifyInstance } from "fastify";
import type { OnRequest } from "./reading-routes.ts";

/** What one secret has proved of one source. Times are unix ms; null while it has proved nothing. */
export interface SecretUse {
  readonly source: string;
  /** Its fingerprint. */
  readonly secret: string;
  /** Where it stands in the settings in force, such as `sources.main.signature.secrets[0]`; null when it does not any more. */
  readonly place: string | null;
  /** Stored events, quarantined ones included; duplicates apart. */
  readonly events: number;
  readonly duplicates: number;
  readonly firstAt: number | null;
  readonly lastAt: number | null;
}

/** `GET /v1/secrets`: which secret proved how much and when last, by fingerprints. */
export function addSecretsRoute(app: FastifyInstance, secretUses: () => Promise<readonly SecretUse[]>, onRequest: OnRequest): void {
  const iso = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
  app.get("/v1/secrets", { onRequest }, async () => ({
    data: (await secretUses()).map(({ source, secret, place, events, duplicates, firstAt, lastAt }) => ({
      source,
      secret,
      place,
      events,
      duplicates,
      firstAt: iso(firstAt),
      lastAt: iso(lastAt),
    })),
  }));
}
