import type { CapturedRequest } from "../../receive/verify-request.ts";

export interface RawRequest extends CapturedRequest {
  /** Names in lower case; a name given twice is joined with ", ", as Node does. */
  readonly headers: Readonly<Record<string, string>>;
}

/** The bytes are not an HTTP/1 request. The message names the fault. */
export class NotARequest extends Error {
  override readonly name = "NotARequest";
}

/**
 * Reads request line, headers, blank line and body. Lines may end in CRLF or LF. The body is as
 * long as Content-Length says, so that a line break an editor put at the end does not count; chunks
 * are put together. Throws {@link NotARequest}.
 */
export function parseRawRequest(bytes: Buffer): RawRequest {
  // latin1 keeps one character a byte, as Node's own header strings do.
  const text = bytes.toString("latin1");
  const blank = /\r?\n\r?\n/.exec(text);
  const head = blank === null ? text.trimEnd() : text.slice(0, blank.index);
  const rest = blank === null ? Buffer.alloc(0) : bytes.subarray(blank.index + blank[0].length);
  const [requestLine = "", ...lines] = head.split(/\r?\n/);
  const line = /^([A-Za-z]+) (\S+)(?: HTTP\/[0-9.]+)?$/.exec(requestLine.trimEnd());
  if (line === null)
    throw new NotARequest("the first line is no request line (like POST /webhooks/main HTTP/1.1)");
  const headers = joinHeaders(lines.map(parseHeader));
  return {
    method: line[1] as string,
    url: line[2] as string,
    headers,
    body: bodyOf(headers, rest),
  };
}

export function parseHeader(line: string): [string, string] {
  const match = /^([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*(.*?)[ \t]*$/s.exec(line);
  if (match === null)
    throw new NotARequest(
      `not a header (like "name: value"): ${line.slice(0, 24)}${line.length > 24 ? "…" : ""}`,
    );
  return [(match[1] as string).toLowerCase(), match[2] as string];
}

export function joinHeaders(pairs: readonly (readonly [string, string])[]): Record<string, string> {
  const headers = new Map<string, string>();
  for (const [name, value] of pairs) {
    const earlier = headers.get(name);
    headers.set(name, earlier === undefined ? value : `${earlier}, ${value}`);
  }
  return Object.fromEntries(headers);
}

function bodyOf(headers: Readonly<Record<string, string>>, rest: Buffer): Buffer {
  if (/\bchunked\b/i.test(headers["transfer-encoding"] ?? "")) return joinChunks(rest);
  const length = headers["content-length"];
  if (length === undefined || !/^[0-9]+$/.test(length)) return rest;
  if (rest.length < Number(length))
    throw new NotARequest(`the body has ${rest.length} bytes, and Content-Length says ${length}`);
  return rest.subarray(0, Number(length));
}

function joinChunks(rest: Buffer): Buffer {
  const chunks: Buffer[] = [];
  let at = 0;
  for (;;) {
    const end = rest.indexOf("\r\n", at);
    const size =
      end < 0 ? null : /^([0-9a-fA-F]{1,8})(?:;.*)?$/.exec(rest.toString("latin1", at, end));
    // Many tools show a chunked request with its chunks already put together.
    if (size === null && chunks.length === 0) return rest;
    const length = Number.parseInt(size?.[1] ?? "", 16);
    if (size === null || end + 2 + length > rest.length)
      throw new NotARequest("the chunks of the body are not whole");
    if (length === 0) return Buffer.concat(chunks);
    chunks.push(rest.subarray(end + 2, end + 2 + length));
    at = end + 2 + length + 2;
  }
}
