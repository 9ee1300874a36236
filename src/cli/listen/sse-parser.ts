/** One message of a stream of server-sent events. */
export interface SseMessage {
  readonly event: string;
  readonly data: string;
  /** Null when the message has none of its own. */
  readonly id: string | null;
}

interface SseParser {
  /** The messages that are complete with this chunk, wherever the stream was cut. Throws when one is too long to be ours. */
  push(chunk: Uint8Array): SseMessage[];
}

/** An event's body is at most 64 MiB (`server.bodyLimit`), a third more as base64. */
const longestMessage = 100 * 1024 * 1024;

/** Reads `text/event-stream` (HTML standard, 9.2.6), but for `retry`, which the caller has a rule of its own for. */
export function createSseParser(longest = longestMessage): SseParser {
  const decoder = new TextDecoder();
  /** Pieces of a line whose end has not come: joined once, so that a dripping line costs no more than another. */
  let pieces: string[] = [];
  let afterReturn = false;
  let length = 0;
  let event = "";
  let data: string[] = [];
  let id: string | null = null;

  function line(text: string, done: SseMessage[]): void {
    if (text === "") {
      if (data.length > 0) done.push({ event: event === "" ? "message" : event, data: data.join("\n"), id });
      event = "";
      data = [];
      id = null;
      length = 0;
      return;
    }
    const colon = text.indexOf(":");
    if (colon === 0) return;
    const field = colon === -1 ? text : text.slice(0, colon);
    const value = colon === -1 ? "" : text.slice(text[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") event = value;
    else if (field === "data") data.push(value);
    else if (field === "id" && !value.includes("\0")) id = value;
  }

  return {
    push(chunk) {
      const done: SseMessage[] = [];
      let text = decoder.decode(chunk, { stream: true });
      if (afterReturn && text !== "") {
        if (text.startsWith("\n")) text = text.slice(1);
        afterReturn = false;
      }
      let from = 0;
      for (const { index, 0: end } of text.matchAll(/\r\n|\n|\r/g)) {
        pieces.push(text.slice(from, index));
        const whole = pieces.length === 1 ? (pieces[0] as string) : pieces.join("");
        pieces = [];
        length += index - from;
        from = index + end.length;
        // The \n of this \r may be the next chunk's first character.
        if (end === "\r" && from === text.length) afterReturn = true;
        line(whole, done);
      }
      if (from < text.length) pieces.push(text.slice(from));
      length += text.length - from;
      if (length > longest) throw new Error("a message of the stream is too long");
      return done;
    },
  };
}
