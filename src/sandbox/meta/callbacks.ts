import { createReceivers, type Posted } from "../post.ts";
import type { Core, WebhookRecord } from "../world.ts";

export interface Handshake {
  readonly url: string;
  readonly isVerified: boolean;
  readonly reason: string | null;
}

/** Meta tries once. The sandbox tries again, so that a receiver may start after it. */
const againMs = 1_000;

export type Callbacks = ReturnType<typeof createCallbacks>;

export function createCallbacks(core: Core, report: (handshake: Handshake) => void) {
  const { world, baseClock } = core;
  const random = core.random.fork("challenges");
  const receivers = createReceivers({ clock: baseClock, timeoutMs: 10_000 });
  let isClosed = false;

  const verify = async (webhook: WebhookRecord): Promise<Handshake> => {
    const { url, meta } = webhook;
    // A positive integer: some receivers parse it.
    const challenge = String(10 ** 9 + random.below(10 ** 9));
    const asked = new URL(url);
    asked.searchParams.append("hub.mode", "subscribe");
    asked.searchParams.append("hub.challenge", challenge);
    asked.searchParams.append("hub.verify_token", meta?.verifyToken ?? "");
    const reason = failureIn(await receivers.call(asked.href, {}), challenge);
    const isVerified = reason === null;
    // A later failure takes nothing back.
    if (isVerified && meta?.isVerified === false) {
      meta.isVerified = true;
      world.webhooks.update(webhook, { meta });
    }
    return { url, isVerified, reason };
  };
  const follow = async (webhook: WebhookRecord, isFirst: boolean): Promise<void> => {
    if (
      isClosed ||
      world.webhooks.get(webhook.id) !== webhook ||
      webhook.meta?.isVerified !== false
    )
      return;
    const handshake = await verify(webhook);
    if (isClosed) return;
    if (isFirst || handshake.isVerified) report(handshake);
    if (!handshake.isVerified) baseClock.after(againMs, () => void follow(webhook, false));
  };
  return {
    verify,
    /** Tries until it succeeds; resolves after the first try. */
    verifySoon: (webhook: WebhookRecord): Promise<void> => follow(webhook, true),
    close(): Promise<void> {
      isClosed = true;
      return receivers.close();
    },
  };
}

function failureIn(answer: Posted, challenge: string): string | null {
  if (answer.kind === "unanswered") return answer.reason;
  if (answer.status !== 200) return `answered ${answer.status}`;
  return answer.text === challenge ? null : "the answer is not the challenge";
}
