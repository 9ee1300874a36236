import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Pool } from "undici";
import { onTestFinished } from "vitest";
import type { Clock } from "../../../../src/model/clock.ts";

/** A road to the service that takes its time, by the clock, each way. */
export interface SlowRoad {
  readonly url: string;
  /** Requests and answers that are on the road until time passes. */
  held(): number;
}

/** @param takes gives the milliseconds of the next way */
export async function openSlowRoad(to: string, clock: Clock, takes: () => number): Promise<SlowRoad> {
  const pool = new Pool(to, { connections: 256 });
  let held = 0;
  const travel = () =>
    new Promise<void>((resolve) => {
      held += 1;
      clock.after(takes(), () => {
        held -= 1;
        resolve();
      });
    });
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray());
    await travel();
    const { authorization = "", "content-type": type = "application/json" } = request.headers;
    const answer = await pool.request({
      method: request.method === "POST" ? "POST" : "GET",
      path: request.url ?? "/",
      headers: { authorization, ...(body.length === 0 ? {} : { "content-type": type }) },
      ...(body.length === 0 ? {} : { body }),
    });
    const text = await answer.body.text();
    await travel();
    response.writeHead(answer.statusCode, answer.headers as Record<string, string>).end(text);
  });
  await new Promise<void>((done) => void server.listen(0, "127.0.0.1", done));
  onTestFinished(async () => {
    server.closeAllConnections();
    server.close();
    await pool.destroy();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, held: () => held };
}
