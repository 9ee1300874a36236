interface SourceSecrets {
  readonly signature: { readonly secrets: readonly { fingerprint(): string }[] };
}

/** How often a secret, named by its fingerprint, verified webhooks of a source. */
interface StoredUsage {
  readonly source: string;
  readonly secret: string;
  readonly events: number;
  readonly duplicates: number;
  readonly firstAt: number | null;
  readonly lastAt: number | null;
}

/** `place`: where the secret is in the settings; null: it was removed from them. */
type SecretUsage = StoredUsage & { readonly place: string | null };

/** The usage of every secret: first those in the settings, in their order there and even if unused, then removed ones. */
export function secretUsage(sources: Readonly<Record<string, SourceSecrets>>, stored: readonly StoredUsage[]): SecretUsage[] {
  const current = Object.entries(sources).flatMap(([source, { signature }]) =>
    signature.secrets.map((key, index): SecretUsage => {
      const secret = key.fingerprint();
      const usage = stored.find((candidate) => candidate.source === source && candidate.secret === secret);
      const place = `sources.${source}.signature.secrets[${index}]`;
      return { ...(usage ?? { source, secret, events: 0, duplicates: 0, firstAt: null, lastAt: null }), place };
    }),
  );
  const removed = stored.filter(({ source, secret }) => !current.some((use) => use.source === source && use.secret === secret));
  return [...current, ...removed.map((usage) => ({ ...usage, place: null }))];
}
