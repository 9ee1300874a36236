import type { TrackedMessage } from "./relay-api.ts";

/** One in so many is registered only after its first status was posted: what routes want tracked is parked until then. */
const lateEvery = 8;

interface Registration {
  /** The service accepted a message. */
  accepted(wamid: string): void;
  /** A status of a message was posted to the relay. */
  posted(wamid: string): void;
  /** Registers whatever is left. Throws what a registration threw. */
  finish(): Promise<void>;
  /** All that were accepted. */
  readonly messages: ReadonlyMap<string, TrackedMessage>;
}

/** Tells the relay of each message, most at once and some late; while a call is under way the next ones gather for one call. */
export function createRegistration(track: (messages: readonly TrackedMessage[]) => Promise<void>): Registration {
  const messages = new Map<string, TrackedMessage>();
  const late = new Map<string, TrackedMessage>();
  const seen = new Set<string>();
  let gathered: TrackedMessage[] = [];
  let running: Promise<void> | null = null;
  let failure: { readonly error: unknown } | null = null;
  const flush = async (): Promise<void> => {
    while (gathered.length > 0) {
      const some = gathered;
      gathered = [];
      await track(some);
    }
  };
  const register = (message: TrackedMessage): void => {
    gathered.push(message);
    running ??= flush()
      .catch((error: unknown) => {
        failure ??= { error };
      })
      .finally(() => {
        running = null;
      });
  };
  return {
    messages,
    accepted(wamid) {
      const number = messages.size + 1;
      const message = { account: "main", wamid, reference: `order-${number}`, metadata: { shop: number % 2 === 0 ? "north" : "south" } };
      messages.set(wamid, message);
      if (number % lateEvery === 0 && !seen.has(wamid)) late.set(wamid, message);
      else register(message);
    },
    posted(wamid) {
      // Whose message it is may be known only later: the answer to the send can come after the first status.
      seen.add(wamid);
      const message = late.get(wamid);
      if (message === undefined) return;
      late.delete(wamid);
      register(message);
    },
    async finish() {
      for (const message of late.values()) register(message);
      late.clear();
      await running;
      if (failure !== null) throw failure.error;
    },
  };
}
