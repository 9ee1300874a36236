import type { NamedValue, SignatureCandidate } from "./signature-candidates.ts";
import type { CapturedRequest } from "./signature-search.ts";

/** One thing that may have been signed, with the values that fill its template. */
export interface SignedContent {
  readonly template: string;
  readonly timestamp: TimestampValue | null;
  readonly id: NamedValue | null;
  readonly publicUrl: string | null;
}

export type TimestampValue = NamedValue & { readonly in: "entry" | "header" };

/** Templates seen in the field, the plainest first. */
const templates = [
  "{body}",
  "{timestamp}.{body}",
  "{timestamp}{body}",
  "{timestamp}:{body}",
  "{timestamp}|{body}",
  "{timestamp}\n{body}",
  "{body}{timestamp}",
  "{body}.{timestamp}",
  "{body}:{timestamp}",
  "v0:{timestamp}:{body}",
  "v1:{timestamp}:{body}",
  "{id}.{timestamp}.{body}",
  "{id}{timestamp}{body}",
  "{id}:{timestamp}:{body}",
  "{timestamp}.{id}.{body}",
  "{timestamp}{id}{body}",
  "{timestamp}:{id}:{body}",
  "{id}.{body}",
  "{id}{body}",
  "{id}:{body}",
  "{url}{body}",
  "{url}.{body}",
  "{method}{url}{body}",
  "{method}{url}{body}{timestamp}",
  "{method}{url}{timestamp}{body}",
  "{timestamp}{method}{url}{body}",
  "{timestamp}.{method}.{url}.{body}",
  "{method}\n{url}\n{body}",
  "{method}\n{url}\n{timestamp}\n{body}",
  "{timestamp}\n{method}\n{url}\n{body}",
];

/** What to try: each template with each value that could fill it. */
export function listContents(from: {
  request: CapturedRequest;
  candidate: SignatureCandidate;
  timestamps: readonly TimestampValue[];
  ids: readonly NamedValue[];
}): SignedContent[] {
  const timestamps = from.timestamps.filter(({ name }) => name !== from.candidate.header);
  const ids = from.ids.filter(({ name }) => name !== from.candidate.header);
  const urls = listPublicUrls(from.request);
  return templates.flatMap((template) =>
    fill(template.includes("{timestamp}"), timestamps).flatMap((timestamp) =>
      fill(template.includes("{id}"), ids).flatMap((id) =>
        (template.includes("{url}") ? urls : [null]).map((publicUrl) => ({ template, timestamp, id, publicUrl })),
      ),
    ),
  );
}

function fill<T>(needed: boolean, values: readonly T[]): readonly (T | null)[] {
  return needed ? values : [null];
}

/** The origin that a sender may have put into `{url}`; null for the target alone. */
export function listPublicUrls({ url, headers }: CapturedRequest): (string | null)[] {
  const origin = /^https?:\/\/[^/?#]+/i.exec(url)?.[0];
  if (origin !== undefined) return [null, origin];
  const hosts = [headers["x-forwarded-host"], headers.host].filter((host) => typeof host === "string" && /^[A-Za-z0-9.:[\]-]+$/.test(host));
  return [null, ...[...new Set(hosts)].flatMap((host) => [`https://${host}`, `http://${host}`])];
}
