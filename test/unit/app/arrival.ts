import type { ReceivedEvent } from "../../../src/model/event.ts";

/** A webhook about a message, as `watching` is told of it. */
export const arrival = (wamid: string, status: string) =>
  ({
    account: "main",
    origin: "webhook",
    subject: { type: "message", wamid, status, errorCode: null },
    envelope: {
      id: "e",
      event: "message.status",
      createdAt: "2026-11-21T00:00:00.000Z",
      data: { wamid, status },
    },
  }) as unknown as ReceivedEvent;
