import { z } from "zod";

/** What the demo reads of `GET /v1/stats`. */
const statsSchema = z.looseObject({
  dispositions: z.looseObject({
    forwarded: z.number(),
    filtered: z.number(),
    ignored: z.number(),
    quarantined: z.number(),
    parked: z.number(),
  }),
  duplicates: z.number(),
  deliveries: z.looseObject({ waiting: z.number(), held: z.number(), delivered: z.number(), dead: z.number() }),
});
export type RelayStats = z.infer<typeof statsSchema>;

/** Events stored as such: all but what is quarantined. */
export function acceptedBy({ forwarded, filtered, ignored, parked }: RelayStats["dispositions"]): number {
  return forwarded + filtered + ignored + parked;
}

export interface TrackedMessage {
  readonly account: string;
  readonly wamid: string;
  readonly reference: string;
  readonly metadata: Readonly<Record<string, unknown>>;
}

export interface RelayApi {
  /** Throws an Error that says what the relay answered. */
  stats(signal: AbortSignal): Promise<RelayStats>;
  /** Registers messages, in calls of at most 1,000. */
  track(messages: readonly TrackedMessage[], signal: AbortSignal): Promise<void>;
}

const mostInOneCall = 1_000;

/** The two calls of the relay's control API that the demo makes. */
export function createRelayApi(url: string, token: string): RelayApi {
  const call = async (path: string, init: RequestInit): Promise<unknown> => {
    const answer = await fetch(url + path, { ...init, headers: { authorization: `Bearer ${token}`, "content-type": "application/json" } });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${init.method ?? "GET"} ${path} was answered ${answer.status}: ${text.slice(0, 300)}`);
    return text === "" ? null : JSON.parse(text);
  };
  return {
    stats: async (signal) => statsSchema.parse(await call("/v1/stats", { signal })),
    async track(messages, signal) {
      for (let from = 0; from < messages.length; from += mostInOneCall) {
        const body = JSON.stringify(messages.slice(from, from + mostInOneCall));
        await call("/v1/messages/track", { method: "POST", body, signal });
      }
    },
  };
}
