import type { ListenEvent } from "./listen-port.ts";
import { iso } from "./present.ts";

/** A server-sent event; `id` null: without one. */
export function message(event: string, data: unknown, id: number | null): string {
  return `${id === null ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
}

export interface EventTexts {
  of(event: ListenEvent): string;
  clear(): void;
}

/** Characters kept, each a byte: what came within the last seconds, for all who listen to it. */
const mostKept = 8 * 1024 * 1024;

/** Events as they are sent. Those who listen hear the same ones at about the same time, so that each is written once. */
export function createEventTexts(most = mostKept): EventTexts {
  const kept = new Map<string, string>();
  let length = 0;

  return {
    of(event) {
      // What of an event may change after it was stored.
      const key = `${event.seq} ${event.disposition} ${event.tracked}`;
      let text = kept.get(key);
      if (text !== undefined) return text;
      text = message("event", present(event), event.seq);
      if (text.length > most / 4) return text;
      kept.set(key, text);
      length += text.length;
      for (const [old, { length: freed }] of kept) {
        if (length <= most) break;
        kept.delete(old);
        length -= freed;
      }
      return text;
    },
    clear() {
      kept.clear();
      length = 0;
    },
  };
}

/** The bytes as base64: text inside JSON would lose what is no UTF-8. */
function present({ content, receivedAt, ...rest }: ListenEvent) {
  const { headers, body } = content();
  return { ...rest, receivedAt: iso(receivedAt), headers, body: body.toString("base64") };
}
