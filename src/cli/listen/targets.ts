import type { UrlDestination } from "../../deliver/destinations/destination.ts";
import { createUrlDestination } from "../../deliver/destinations/url.ts";
import { urlDestinationSchema } from "../../deliver/settings.ts";
import type { DeliveryId } from "../../event/ids.ts";
import type { ListenedEvent } from "./wire.ts";

interface TargetOptions {
  /** `URL`, or `source=URL`; the first that fits a source counts. */
  readonly forwardTo: readonly string[];
  readonly allowRemote: boolean;
  readonly headers: Readonly<Record<string, string>>;
  /** Signs in the Standard Webhooks way, beside what is passed on; null: nothing is signed anew. */
  readonly secret: string | null;
}

/** What came of one post. */
export interface PostOutcome {
  readonly taken: boolean;
  /** The status answered, or null. */
  readonly status: number | null;
  /** Why nothing was answered. */
  readonly error: string | null;
  readonly tookMs: number;
}

export interface Targets {
  /** Null: the source's events go nowhere. */
  urlOf(source: string): string | null;
  /** The sources named, when every target is of one; null: events of all sources go somewhere. */
  readonly sources: readonly string[] | null;
  post(url: string, event: ListenedEvent, attempt: number, replay: boolean, signal: AbortSignal): Promise<PostOutcome>;
  close(): Promise<void>;
}

/** Longest wait for a local answer: somebody may be in a debugger. */
const timeout = "5m";

/** Where events go on this machine. Throws an Error for the person at the terminal. */
export function createTargets({ forwardTo, allowRemote, headers, secret }: TargetOptions, now: () => number): Targets {
  const bySource = new Map<string, string>();
  let others: string | null = null;
  const destinations = new Map<string, UrlDestination>();
  for (const text of forwardTo) {
    const { 1: source, 2: given = text } = /^([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(https?:\/\/.*)$/is.exec(text) ?? [];
    const url = URL.parse(given);
    if (url === null || !/^https?:$/.test(url.protocol))
      throw new Error(`--forward-to takes an http or https URL, or source=URL, and not "${text}"`);
    if (!allowRemote && !isLocal(url.hostname))
      throw new Error(`--forward-to ${url.host} is not on this machine; add --allow-remote if people's messages may go there`);
    if (source === undefined && others !== null) throw new Error("--forward-to: two URLs for the same events; use source=URL");
    if (source !== undefined && bySource.has(source)) throw new Error(`--forward-to: two URLs for the source ${source}`);
    if (source === undefined) others = url.href;
    else bySource.set(source, url.href);
    if (destinations.has(url.href)) continue;
    const settings = urlDestinationSchema.safeParse({
      url: url.href,
      headers,
      timeout,
      concurrency: 1,
      allowPrivate: true,
      passSignature: true,
      ...(secret === null ? {} : { secret }),
    });
    if (!settings.success) {
      const [issue] = settings.error.issues;
      const message = issue?.code === "invalid_key" ? issue.issues[0]?.message : issue?.message;
      throw new Error(`${issue?.path[0] === "url" ? "--forward-to" : `--${String(issue?.path[0])}`}: ${message}`);
    }
    destinations.set(url.href, createUrlDestination(settings.data, now));
  }

  return {
    urlOf: (source) => bySource.get(source) ?? others,
    sources: others === null && bySource.size > 0 ? [...bySource.keys()] : null,
    async post(url, event, attempt, replay, signal) {
      const {
        "content-type": contentType = "application/json",
        "content-encoding": contentEncoding = null,
        ...passHeaders
      } = event.headers;
      const delivery = {
        id: event.id as DeliveryId,
        event: event.event,
        eventId: event.id,
        attempt,
        replays: replay ? 1 : 0,
        body: event.body,
        contentType,
        contentEncoding,
        passHeaders,
      };
      const { result, tookMs, response } = await (destinations.get(url) as UrlDestination).send(delivery, signal);
      if (result.kind === "answered") {
        const { status } = result;
        return { taken: status >= 200 && status < 300, status, error: null, tookMs };
      }
      return { taken: false, status: null, error: response?.toString("utf8") ?? result.error, tookMs };
    },
    async close() {
      await Promise.all([...destinations.values()].map((destination) => destination.close()));
    },
  };
}

function isLocal(host: string): boolean {
  return host === "localhost" || host.endsWith(".localhost") || host === "[::1]" || /^127(\.\d{1,3}){3}$/.test(host);
}
