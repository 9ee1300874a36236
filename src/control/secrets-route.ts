import type { FastifyInstance } from "fastify";
import { type Allow, addEndpoint } from "./endpoint.ts";

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

const secrets = {
  method: "GET",
  path: "/v1/secrets",
  name: "listSecrets",
  scope: "read",
  summary: "Which secret proved how much, and when last, by fingerprints",
  answers: { 200: { text: "Those of the settings first, in their order there; then those that are gone from them.", list: true } },
} as const;

/** `GET /v1/secrets`: which secret proved how much and when last, by fingerprints. */
export function addSecretsRoute(app: FastifyInstance, secretUses: () => Promise<readonly SecretUse[]>, allow: Allow): void {
  const iso = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
  addEndpoint(app, allow, secrets, async () => ({
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
