import {
  createUrlDestination,
  routeUrlSchema,
  type UrlDestination,
} from "../../deliver/destinations/url.ts";
import { type Clock, growingWait, pause, withJitter } from "../../model/clock.ts";
import type { DeliveryId } from "../../model/ids.ts";
import { isLoopbackHost } from "../../net/addresses.ts";
import { webUrl } from "../options.ts";
import type { PostOutcome, Screen } from "./screen.ts";
import type { ListenedEvent } from "./wire.ts";

interface ForwarderParts {
  readonly targets: Targets | null;
  /**
   * After so many answers that are no 2xx an event is passed over; null: never. A server that is
   * down is waited for.
   */
  readonly maxAttempts: number | null;
  readonly clock: Clock;
  readonly random: () => number;
  readonly screen: Pick<Screen, "event" | "answer" | "skipped">;
  readonly quit: AbortSignal;
}

/** Local servers are started again all the time, and are wanted back at once. */
const retry = { firstMs: 500, longestMs: 5_000 };

export function createForwarder({
  targets,
  maxAttempts,
  clock,
  random,
  screen,
  quit,
}: ForwarderParts) {
  return {
    /**
     * Posts until a target accepts the event or it is skipped; rejects when the command ends first.
     */
    async take(event: ListenedEvent): Promise<void> {
      quit.throwIfAborted();
      const url = targets?.urlOf(event.source) ?? null;
      screen.event(event, url);
      if (targets === null || url === null) return;
      let shown = "";
      let refusals = 0;
      for (let attempt = 1; ; attempt += 1) {
        const outcome = await targets.post(url, event, attempt);
        if (outcome.taken) return screen.answer(event, url, outcome, false);
        if (outcome.status !== null) refusals += 1;
        const isLast = maxAttempts !== null && refusals >= maxAttempts;
        const failure = `${outcome.status} ${outcome.error}`;
        if ((failure !== shown || isLast) && !quit.aborted)
          screen.answer(event, url, outcome, !isLast);
        if (isLast) return screen.skipped(event);
        shown = failure;
        await pause(
          clock,
          withJitter(growingWait(attempt, retry.firstMs, retry.longestMs), random()),
          quit,
        );
      }
    },
  };
}

interface TargetOptions {
  /** `URL`, or `source=URL`; the first that fits a source counts. */
  readonly forwardTo: readonly string[];
  readonly allowRemote?: boolean | undefined;
  readonly headers: Readonly<Record<string, string>>;
  /** Signs with Standard Webhooks, in addition to the original headers. */
  readonly secret?: string | undefined;
  /** Signs as Meta does, instead of the original headers. */
  readonly appSecret?: string | undefined;
}

export type Targets = ReturnType<typeof createTargets>;

/** Longest wait for a local answer: the developer may be in a debugger. */
const timeout = "5m";

const optionNames: Readonly<Record<string, string>> = {
  url: "forward-to",
  signature: "app-secret",
};

/** Where events go on this machine. `wrong` receives what is wrong with an option. */
export function createTargets(
  options: TargetOptions,
  now: () => number,
  wrong: (message: string) => never,
) {
  const { forwardTo, allowRemote = false, headers, secret, appSecret } = options;
  /** By source; that of undefined is for all others. */
  const urls = new Map<string | undefined, string>();
  const destinations = new Map<string, UrlDestination>();
  for (const text of forwardTo) {
    const { 1: source, 2: given = text } =
      /^([A-Za-z0-9][A-Za-z0-9._-]{0,63})=(.*)$/is.exec(text) ?? [];
    const url = webUrl(given);
    if (url === null)
      return wrong(`--forward-to takes an http or https URL, or source=URL, and not "${text}"`);
    if (!allowRemote && !isLoopbackHost(url.href))
      wrong(
        `--forward-to ${url.host} is not on this machine; add --allow-remote if people's messages may go there`,
      );
    if (urls.has(source))
      wrong(
        `--forward-to: two URLs for the ${source === undefined ? "same events; use source=URL" : `source ${source}`}`,
      );
    urls.set(source, url.href);
    if (destinations.has(url.href)) continue;
    const settings = routeUrlSchema.safeParse({
      url: url.href,
      headers,
      timeout,
      concurrency: 1,
      allowPrivate: true,
      secret,
      signature: appSecret === undefined ? undefined : { preset: "meta", secret: appSecret },
    });
    if (!settings.success) {
      const [issue] = settings.error.issues;
      const message = issue?.code === "invalid_key" ? issue.issues[0]?.message : issue?.message;
      const field = String(issue?.path[0]);
      return wrong(`--${optionNames[field] ?? field}: ${message}`);
    }
    destinations.set(url.href, createUrlDestination(settings.data, now));
  }

  return {
    /** Null: the source's events go nowhere. */
    urlOf: (source: string): string | null => urls.get(source) ?? urls.get(undefined) ?? null,
    /** The sources named, when every target is of one; null: events of all sources go somewhere. */
    sources: urls.has(undefined) ? null : [...urls.keys()],
    async post(url: string, event: ListenedEvent, attempt: number): Promise<PostOutcome> {
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
        replays: 0,
        body: event.body,
        contentType,
        contentEncoding,
        passHeaders: appSecret === undefined ? passHeaders : {},
      };
      const { result, tookMs, response } = await (destinations.get(url) as UrlDestination).send(
        delivery,
      );
      if (result.kind === "answered") {
        const { status } = result;
        return { taken: status >= 200 && status < 300, status, error: null, tookMs };
      }
      return {
        taken: false,
        status: null,
        error: response?.toString("utf8") ?? result.error,
        tookMs,
      };
    },
    async close(): Promise<void> {
      await Promise.all([...destinations.values()].map((destination) => destination.close()));
    },
  };
}
