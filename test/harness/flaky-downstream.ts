import { createHash } from "node:crypto";
import {
  type Arrival,
  type ArrivalCounts,
  createArrivalLog,
} from "../../src/sandbox/downstream.ts";
import { startHttp } from "../integration/url-destination/downstream.ts";

/**
 * What becomes of one arrival: the status answered, after how long; `hang` and `reset` answer
 * nothing.
 */
export type Treatment = { readonly status: number; readonly afterMs?: number } | "hang" | "reset";

export interface FlakyArrival extends Arrival {
  /** Unix ms at which it had arrived whole. */
  readonly at: number;
  /** The `x-sent-by` header; empty when absent. */
  readonly sentBy: string;
}

export interface FlakyDownstream {
  /** `http://127.0.0.1:<port>`, without a path; any path is taken. */
  readonly url: string;
  /** In the order in which they arrived whole, with what was to be answered. */
  readonly arrivals: readonly FlakyArrival[];
  counts(path?: string): ArrivalCounts;
}

/**
 * Closed at the test's end. `treat` decides about each arrival; `share` is a number from 0 to 1
 * that is always the same for a delivery.
 */
export async function openFlakyDownstream(
  treat: (path: string, attempt: number, share: number) => Treatment,
): Promise<FlakyDownstream> {
  const log = createArrivalLog({ keepArrivals: false });
  const arrivals: FlakyArrival[] = [];

  const { port, seen } = await startHttp((request, response) => {
    const path = request.url ?? "/";
    const deliveryId = String(request.headers["webhook-id"] ?? "");
    const attempt = log.begin(deliveryId);
    const treatment = treat(path, attempt, shareOf(deliveryId));
    const { id, data } = JSON.parse(String(seen.pop()?.body)) as {
      id: string;
      data?: { wamid?: string };
    };
    const arrival: FlakyArrival = {
      number: arrivals.length + 1,
      path,
      deliveryId,
      attempt,
      eventId: id,
      wamid: data?.wamid ?? null,
      answered: typeof treatment === "object" ? treatment.status : null,
      signature: "unchecked",
      body: null,
      at: Date.now(),
      sentBy: String(request.headers["x-sent-by"] ?? ""),
    };
    arrivals.push(arrival);
    log.note(arrival);
    if (treatment === "reset") request.socket.resetAndDestroy();
    else if (treatment !== "hang") {
      const answer = () => void response.writeHead(treatment.status).end("so be it");
      if (treatment.afterMs === undefined) answer();
      else setTimeout(answer, treatment.afterMs).unref();
    }
  });
  return { url: `http://127.0.0.1:${port}`, arrivals, counts: log.counts };
}

const shareOf = (id: string): number =>
  createHash("sha1").update(id).digest().readUInt32BE(0) / 2 ** 32;
