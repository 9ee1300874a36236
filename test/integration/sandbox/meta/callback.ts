import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";
import { type RequestItem, readRequest } from "../../../../src/sandbox/meta/updates.ts";
import { listen } from "../../url-destination/downstream.ts";

/** Items of an unknown shape: tests look at single members. */
export type Item = Omit<RequestItem, "item"> & { readonly item: Readonly<Record<string, unknown>> };

export interface CallbackPost {
  readonly body: Buffer;
  readonly isSigned: boolean;
  readonly answered: number;
  readonly items: readonly Item[];
}

/**
 * A receiver of Meta's webhooks: does the handshake, checks signatures, and reads all items of each
 * request.
 */
export async function openCallback({
  appSecret = "app secret",
  verifyToken = "verify token",
  port = 0,
} = {}) {
  const posts: CallbackPost[] = [];
  const handshakes: {
    readonly query: Readonly<Record<string, string>>;
    readonly answered: number;
  }[] = [];
  let answer: (post: number) => number = () => 200;
  const server = createServer(async (request, response) => {
    const url = new URL(request.url ?? "", "http://callback");
    const body = Buffer.concat(await request.toArray());
    if (request.method === "GET") {
      const isRight =
        url.searchParams.get("hub.mode") === "subscribe" &&
        url.searchParams.get("hub.verify_token") === verifyToken;
      const answered = isRight ? 200 : 403;
      handshakes.push({ query: Object.fromEntries(url.searchParams), answered });
      response
        .writeHead(answered, { "content-type": "text/plain" })
        .end(isRight ? url.searchParams.get("hub.challenge") : "");
      return;
    }
    const right = Buffer.from(
      `sha256=${createHmac("sha256", appSecret).update(body).digest("hex")}`,
    );
    const given = Buffer.from(String(request.headers["x-hub-signature-256"]));
    const isSigned = given.length === right.length && timingSafeEqual(given, right);
    const answered = isSigned ? answer(posts.length + 1) : 401;
    posts.push({ body, isSigned, answered, items: readRequest(body) as Item[] });
    response.writeHead(answered).end();
  });
  const { port: listening } = await listen(server, "127.0.0.1", port);
  return {
    url: `http://127.0.0.1:${listening}/webhooks/wa`,
    appSecret,
    verifyToken,
    posts,
    handshakes,
    /** Items of the requests that were answered 200. */
    taken: () => posts.filter(({ answered }) => answered === 200).flatMap(({ items }) => items),
    /** Statuses of messages among them, as `wamid status`. */
    statuses: (): string[] =>
      posts
        .filter(({ answered }) => answered === 200)
        .flatMap(({ items }) => items)
        .filter(({ field, list }) => field === "messages" && list === "statuses")
        .map(({ item }) => `${item["id"]} ${item["status"]}`),
    /** Decides the status of each post that is rightly signed; the first is 1. */
    answerWith(next: (post: number) => number): void {
      answer = next;
    },
  };
}
