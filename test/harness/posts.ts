import type { Wamid } from "../../src/model/ids.ts";
import type { MessageStatus } from "../../src/model/statuses.ts";
import { bodyOf, createEventMaker, type SandboxEvent } from "../../src/sandbox/events/publisher.ts";
import { createPhones, createRandom, createWamids } from "../../src/sandbox/ids.ts";
import type { Post } from "../../src/sandbox/traffic/answers.ts";

/** Distinct messages and their events, the same again from the same seed but for the ids' time. */
export function createMessages(seed: number | string) {
  const random = createRandom(seed);
  const make = createEventMaker({ clock: Date.now, random: random.fork("ids") });
  const phone = createPhones(random.fork("phones"));
  const wamids = createWamids(random.fork("wamids"));
  return {
    wamid: (): Wamid => wamids(phone()),
    status: (wamid: Wamid, status: MessageStatus): SandboxEvent =>
      make.messageStatus(wamid, status),
    /** The first status of a message of its own. */
    event: (): SandboxEvent => make.messageStatus(wamids(phone()), "sent"),
  };
}

/** A rightly signed post of an event; `body` for other bytes under the same id. */
export function postOf(event: SandboxEvent, body: Buffer = bodyOf(event)): Post {
  const { wamid = null } = event.data as { wamid?: Wamid };
  return {
    sort: "status",
    body,
    signature: "right",
    subject: { id: event.id, event: event.event, wamid, runId: null },
    expected: { of: "event", id: event.id },
  };
}
