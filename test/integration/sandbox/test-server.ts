import type { ServerResponse } from "node:http";
import { type SeenRequest, startHttp } from "../url-destination/downstream.ts";

export type { SeenRequest };

/** A server that notes each request whole and lets `answer` reply; `count` is 1 for the first. */
export async function startTestServer(
  answer: (response: ServerResponse, request: SeenRequest, count: number) => void,
) {
  const { url, seen } = await startHttp((_request, response) =>
    answer(response, seen.at(-1) as SeenRequest, seen.length),
  );
  return { url: new URL(url).origin, seen };
}
