import { type CommonSettings, signingSecrets } from "../deliver/settings.ts";
import { placeholderPrefix, type Secret } from "../model/secret.ts";
import { decodeKey, resolveScheme } from "../model/signature.ts";
import { pathText, type SettingsPath } from "./fault.ts";
import type { Settings, SourceSettings } from "./schema.ts";
import { inboundSecrets } from "./sources.ts";

export type Warn = (path: readonly (string | number)[], message: string) => void;

interface PlacedSecret {
  readonly path: readonly (string | number)[];
  readonly secret: Secret;
  /** `app`: signs as Meta does. */
  readonly use: "incoming" | "outgoing" | "app" | "token";
  /** Places with the same owner may share a secret: sources of one account, routes to one server. */
  readonly owner: string;
  /** Length of the key in bytes. */
  readonly bytes: number;
}

/** 128 bits, less than which can be guessed offline from one captured request. */
const shortest = 16;
/** Standard Webhooks: a secret is 24 to 64 bytes. */
const shortestOutgoing = 24;

/** Warns about secrets that are published, short, used in two places, or that no Standard Webhooks library reads. */
export function warnAboutSecrets(settings: Settings, warn: Warn): void {
  const places = [...placesOf(settings)];
  const alike = Map.groupBy(places, ({ secret }) => secret.reveal());
  for (const place of places) {
    const message = weaknessOf(place) ?? repetitionOf(place, alike.get(place.secret.reveal()) ?? []);
    if (message !== null) warn(place.path, message);
  }
}

function* placesOf({ control, sources, routes }: Settings): Generator<PlacedSecret> {
  for (const [index, { token }] of control.tokens.entries()) {
    const path = ["control", "tokens", index, "token"];
    yield { path, secret: token, use: "token", owner: pathText(path), bytes: Buffer.byteLength(token.reveal()) };
  }
  for (const { source: name, path, secret } of inboundSecrets({ sources })) {
    const source = sources[name] as SourceSettings;
    const encoding = path[2] === "signature" && source.signature !== undefined ? resolveScheme(source.signature).secretEncoding : "utf8";
    yield { path, secret, use: "incoming", owner: source.account, bytes: decodeKey(secret.reveal(), encoding).length };
  }
  for (const [name, source] of Object.entries(sources)) {
    if (source.kind === "automation-request" && source.to !== undefined) yield* outgoing(source.to, ["sources", name, "to"], source.to.url);
  }
  for (const [index, { to }] of routes.entries()) {
    yield* outgoing(to, ["routes", index, "to"], "url" in to ? to.url : to.redis.fingerprint());
    if ("url" in to && to.signature !== undefined) {
      const { secret } = to.signature;
      const path = ["routes", index, "to", "signature", "secret"];
      yield { path, secret, use: "app", owner: new URL(to.url).origin, bytes: Buffer.byteLength(secret.reveal()) };
    }
  }
}

type OutgoingSecrets = Pick<CommonSettings, "secret" | "secrets">;

function* outgoing(to: OutgoingSecrets, path: readonly (string | number)[], place: string): Generator<PlacedSecret> {
  const owner = URL.parse(place)?.origin ?? place;
  for (const [index, secret] of signingSecrets(to).entries()) {
    const text = secret.reveal();
    const bytes = decodeKey(text, text.startsWith("whsec_") ? "whsec" : "utf8").length;
    yield { path: [...path, ...(to.secret === undefined ? ["secrets", index] : ["secret"])], secret, use: "outgoing", owner, bytes };
  }
}

const goodOne: Readonly<Record<PlacedSecret["use"], string>> = {
  incoming: '"openssl rand -hex 32" makes a good one',
  app: '"openssl rand -hex 16" makes a good one, if the destination lets you choose it',
  token: '"openssl rand -hex 32" makes a good one',
  outgoing: 'echo "whsec_$(openssl rand -base64 32)" makes a good one',
};

function weaknessOf({ secret, use, bytes }: PlacedSecret): string | null {
  const text = secret.reveal();
  if (isPlaceholder(secret)) return placeholderWarning;
  if (isExample(text)) return `is an example, which others know; ${goodOne[use]}`;
  const least = use === "outgoing" ? shortestOutgoing : shortest;
  const faults = [
    ...(bytes < least ? [`is shorter than ${least} bytes, and may be guessed`] : []),
    ...(use === "outgoing" && !text.startsWith("whsec_")
      ? ["does not begin with whsec_: Standard Webhooks libraries cannot verify the signature"]
      : []),
  ];
  return faults.length === 0 ? null : `${faults.join("; it ")}; ${goodOne[use]}`;
}

function repetitionOf(place: PlacedSecret, alike: readonly PlacedSecret[]): string | null {
  const earlier = alike.slice(0, alike.indexOf(place));
  const same = earlier.find(({ use, owner }) => !(use === place.use && (owner === place.owner || use === "token")));
  return same === undefined ? null : `is the same secret as ${pathText(same.path satisfies SettingsPath)}: one leak opens both`;
}

/** Long words only: short ones occur in random base64. */
const exampleWords =
  /change[-_ ]?me|replace[-_ ]?(?:me|this)|example|placeholder|your[-_ ](?:\w+[-_ ])?(?:secret|token|key)|^<.*>$|^(?:…|\.\.\.)$/i;
const exampleTexts = new Set([
  // The examples of Standard Webhooks and of Svix.
  "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
  "C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
  "secret",
  "password",
  "token",
  "test",
]);

export const placeholderWarning = 'is the placeholder that "wamid-relay init" wrote: put the real secret in its place';

/** True for a secret that `wamid-relay init` did not know, and nobody has filled in. */
export function isPlaceholder(secret: Secret): boolean {
  return secret.reveal().startsWith(placeholderPrefix);
}

function isExample(text: string): boolean {
  const bare = text.replace(/^whsec_/, "");
  return exampleWords.test(bare) || exampleTexts.has(bare) || isMonotonous(bare);
}

/** `xxxxxxxx`, or a count such as `0123456789abcdef` repeated. */
function isMonotonous(text: string): boolean {
  return new Set(text).size <= 2 || "0123456789abcdef".repeat(8).startsWith(text.toLowerCase());
}
