import type { SecretUseView } from "../model/answers/relay.ts";
import type { Secret } from "../model/secret.ts";
import { pathText } from "./fault.ts";
import type { Settings, SourceSettings } from "./schema.ts";

export function inboundSecrets({ sources }: Pick<Settings, "sources">) {
  return Object.entries(sources).flatMap(([name, source]) =>
    secretsOf(source).flatMap(([place, secrets]) =>
      secrets.map((secret, index) => ({
        source: name,
        path: ["sources", name, ...place, index],
        secret,
      })),
    ),
  );
}

/**
 * First the secrets in the settings, even if unused, then removed ones, without a place. By their
 * fingerprints.
 */
export function secretUsage(
  settings: Pick<Settings, "sources">,
  stored: readonly Omit<SecretUseView, "place">[],
): SecretUseView[] {
  const unused = { events: 0, duplicates: 0, firstAt: null, lastAt: null };
  const current = inboundSecrets(settings).map(({ source, path, secret: each }): SecretUseView => {
    const secret = each.fingerprint();
    const usage = stored.find((use) => use.source === source && use.secret === secret) ?? unused;
    return { ...usage, source, secret, place: pathText(path) };
  });
  const removed = stored.filter(
    ({ source, secret }) => !current.some((use) => use.source === source && use.secret === secret),
  );
  return [...current, ...removed.map((usage) => ({ ...usage, place: null }))];
}

function secretsOf(
  source: SourceSettings,
): (readonly [place: readonly string[], secrets: readonly Secret[]])[] {
  const { header, pathSecrets = [] } = metaOf(source) ?? {};
  return [
    [["signature", "secrets"], source.signature?.secrets ?? []],
    [["header", "values"], header?.values ?? []],
    [["pathSecrets"], pathSecrets],
  ];
}

export const metaOf = (source: SourceSettings | undefined) =>
  source?.kind === "events" && source.format === "meta" ? source : null;

export function accountsOf(source: SourceSettings): readonly string[] {
  const mapped = Object.values(metaOf(source)?.accounts ?? {});
  return source.account === "" ? mapped : [source.account, ...mapped];
}
