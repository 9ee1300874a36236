import { createHmac } from "node:crypto";
import { type SeenRequest, startTestServer } from "../sandbox/test-server.ts";

/** True when the request proves itself to who has `secret`, worked out by node:crypto alone. */
export function proves({ headers, body }: SeenRequest, secret: string): boolean {
  return headers["x-acme-signature"]?.toString().replace(/^sha256=/, "") === createHmac("sha256", secret).update(body).digest("hex");
}

/** A receiver that is no relay: 204 to what proves itself, else 403. */
export function startBareReceiver(secret: string) {
  return startTestServer((response, request) => void response.writeHead(proves(request, secret) ? 204 : 403).end());
}
