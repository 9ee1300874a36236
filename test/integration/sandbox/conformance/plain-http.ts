import { Agent, type IncomingHttpHeaders, request } from "node:http";

/**
 * An answer as it came over the wire. `body` is the JSON in it, typed as the test expects it: the
 * test checks it.
 */
export interface Answer<T> {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  readonly body: T;
}

export interface Call {
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON; text is sent as it is. */
  readonly body?: unknown;
  /** The caller's own address on loopback, such as `127.0.0.2`. */
  readonly from?: string;
}

const agent = new Agent({ keepAlive: true, maxSockets: 8 });

/**
 * One request through node:http and nothing else: the service's client has no part in these tests.
 */
export function callPlainly<T>(
  method: string,
  url: string,
  { headers = {}, body, from }: Call = {},
): Promise<Answer<T>> {
  const payload =
    body === undefined
      ? undefined
      : Buffer.from(typeof body === "string" ? body : JSON.stringify(body), "utf8");
  const type =
    payload === undefined
      ? {}
      : { "content-type": "application/json", "content-length": String(payload.length) };
  return new Promise((resolve, reject) => {
    const options = {
      method,
      agent,
      headers: { ...type, ...headers },
      ...(from === undefined ? {} : { localAddress: from }),
    };
    const outgoing = request(url, options, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          body: parsed(text) as T,
        });
      });
    });
    outgoing.on("error", reject);
    outgoing.end(payload);
  });
}

/** What is no JSON is undefined, which no shape matches. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
