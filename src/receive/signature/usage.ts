/** A secret of the current settings. `place`: where it is in them. */
interface PlacedSecret {
  readonly source: string;
  /** Its fingerprint. */
  readonly secret: string;
  readonly place: string;
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
export function secretUsage(placed: readonly PlacedSecret[], stored: readonly StoredUsage[]): SecretUsage[] {
  const current = placed.map(({ source, secret, place }): SecretUsage => {
    const usage = stored.find((candidate) => candidate.source === source && candidate.secret === secret);
    return { ...(usage ?? { source, secret, events: 0, duplicates: 0, firstAt: null, lastAt: null }), place };
  });
  const removed = stored.filter(({ source, secret }) => !current.some((use) => use.source === source && use.secret === secret));
  return [...current, ...removed.map((usage) => ({ ...usage, place: null }))];
}
