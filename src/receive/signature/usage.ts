/** `place`: where it is in the settings. `secret`: its fingerprint. */
interface PlacedSecret {
  readonly source: string;
  readonly secret: string;
  readonly place: string;
}

interface StoredUsage {
  readonly source: string;
  readonly secret: string;
  readonly events: number;
  readonly duplicates: number;
  readonly firstAt: number | null;
  readonly lastAt: number | null;
}

/** `place` null: it was removed from the settings. */
type SecretUsage = StoredUsage & { readonly place: string | null };

/** First the secrets in the settings, even if unused, then removed ones. */
export function secretUsage(placed: readonly PlacedSecret[], stored: readonly StoredUsage[]): SecretUsage[] {
  const current = placed.map(({ source, secret, place }): SecretUsage => {
    const usage = stored.find((candidate) => candidate.source === source && candidate.secret === secret);
    return { ...(usage ?? { source, secret, events: 0, duplicates: 0, firstAt: null, lastAt: null }), place };
  });
  const removed = stored.filter(({ source, secret }) => !current.some((use) => use.source === source && use.secret === secret));
  return [...current, ...removed.map((usage) => ({ ...usage, place: null }))];
}
