import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Agent } from "undici";
import { signatureHeader } from "../events.ts";
import { ready } from "../process/child.ts";
import { accepted, isSigned, refused } from "./verify.ts";

/**
 * The least that relays at all: `node:http` in, signature checked, undici out, nothing stored. It
 * acknowledges once the destination has answered: without a store there is no other moment at which
 * it could, and so no backlog can grow.
 */
const target = new URL(process.argv[3] as string);
const agent = new Agent({ connections: Number(process.argv[4]), pipelining: 1 });

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => void chunks.push(chunk));
  request.on("end", () => {
    const body = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    const answer = (status: number, text: string) => {
      response.writeHead(status, {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(text),
      });
      response.end(text);
    };
    if (!isSigned(body, request.headers[signatureHeader])) return answer(401, refused);
    forward(body).then(
      (status) => answer(status < 300 ? 200 : 502, accepted),
      () => answer(502, '{"error":"not delivered"}'),
    );
  });
});

async function forward(body: Buffer): Promise<number> {
  const answer = await agent.request({
    origin: target.origin,
    path: target.pathname,
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
  await answer.body.dump();
  return answer.statusCode;
}

server.listen(Number(process.argv[2]), "127.0.0.1", () =>
  ready((server.address() as AddressInfo).port),
);
