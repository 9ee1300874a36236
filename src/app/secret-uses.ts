import type { Settings } from "../config/schema.ts";
import type { SecretUse } from "../control/operate.ts";
import type { Proof } from "../store/views.ts";

/**
 * What each secret of each source has proved: those of the settings in their order there, whether they proved anything or
 * not, then those that have gone from the settings.
 */
export function secretUses(sources: Settings["sources"], proofs: readonly Proof[]): SecretUse[] {
  const inForce = Object.entries(sources).flatMap(([source, { signature }]) =>
    signature.secrets.map((secret, index): SecretUse => {
      const fingerprint = secret.fingerprint();
      const proof = proofs.find((candidate) => candidate.source === source && candidate.secret === fingerprint);
      const place = `sources.${source}.signature.secrets[${index}]`;
      return { ...(proof ?? { source, secret: fingerprint, events: 0, duplicates: 0, firstAt: null, lastAt: null }), place };
    }),
  );
  const gone = proofs.filter(({ source, secret }) => !inForce.some((use) => use.source === source && use.secret === secret));
  return [...inForce, ...gone.map((proof) => ({ ...proof, place: null }))];
}
