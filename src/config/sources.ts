import type { Secret } from "../model/secret.ts";
import { pathText } from "./fault.ts";
import type { Settings, SourceSettings } from "./schema.ts";

interface InboundSecret {
  readonly source: string;
  readonly path: readonly (string | number)[];
  readonly secret: Secret;
}

export function inboundSecrets({ sources }: Pick<Settings, "sources">): InboundSecret[] {
  return Object.entries(sources).flatMap(([name, source]) =>
    secretsOf(source).flatMap(([place, secrets]) =>
      secrets.map((secret, index) => ({ source: name, path: ["sources", name, ...place, index], secret })),
    ),
  );
}

/** The same by their fingerprints, and where they are. */
export function placedSecrets(settings: Pick<Settings, "sources">) {
  return inboundSecrets(settings).map(({ source, path, secret }) => ({ source, secret: secret.fingerprint(), place: pathText(path) }));
}

function secretsOf(source: SourceSettings): (readonly [place: readonly string[], secrets: readonly Secret[]])[] {
  const { signature } = source;
  const signing = [[["signature", "secrets"], signature?.secrets ?? []]] as const;
  if (source.kind !== "events" || source.format === "standard") return [...signing];
  return [...signing, [["header", "values"], source.header?.values ?? []], [["pathSecrets"], source.pathSecrets ?? []]];
}

export function accountsOf(source: SourceSettings): readonly string[] {
  const mapped = source.kind === "events" && source.format !== "standard" ? Object.values(source.accounts ?? {}) : [];
  return source.account === "" ? mapped : [source.account, ...mapped];
}
