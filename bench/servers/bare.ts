import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { signatureHeader } from "../events.ts";
import { ready } from "../process/child.ts";
import { accepted, isSigned, refused } from "./verify.ts";

/**
 * Bare `node:http` that checks the signature and stores nothing: as fast as one Node process can
 * receive.
 */
const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => void chunks.push(chunk));
  request.on("end", () =>
    receive(request, response, chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)),
  );
});

function receive(request: IncomingMessage, response: ServerResponse, body: Buffer): void {
  const signed = isSigned(body, request.headers[signatureHeader]);
  const answer = signed ? accepted : refused;
  response.writeHead(signed ? 200 : 401, {
    "content-type": "application/json",
    "content-length": Buffer.byteLength(answer),
  });
  response.end(answer);
}

server.listen(Number(process.argv[2]), "127.0.0.1", () =>
  ready((server.address() as AddressInfo).port),
);
