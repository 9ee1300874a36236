import type { z } from "zod";
import type { ControlClient } from "./control-client.ts";
import { pageOf, readAnswer } from "./control-views.ts";
import { expectDone } from "./reach-relay.ts";

/** Most rows of one page of the API. */
const largestPage = 1000;

export interface Listing<T, N> {
  readonly data: readonly T[];
  /** For `--before`; null when nothing is left. */
  readonly next: N | null;
  /** Of events by wamid: so many of those that wait to be planned were not looked at. */
  readonly unseen: number;
}

/** Asks for page after page until there are `limit` rows, or no more. */
export async function readPages<T extends z.ZodType, N extends z.ZodType>(
  client: ControlClient,
  path: string,
  query: Readonly<Record<string, string | undefined>>,
  limit: number,
  schemas: { readonly item: T; readonly next: N },
): Promise<Listing<z.infer<T>, z.infer<N>>> {
  const page = pageOf(schemas.item, schemas.next);
  const data: z.infer<T>[] = [];
  let before = query["before"];
  let unseen = 0;
  for (;;) {
    const asked = { ...query, before, limit: String(Math.min(largestPage, limit - data.length)) };
    const given = Object.entries(asked).filter((entry): entry is [string, string] => entry[1] !== undefined);
    const answer = readAnswer(page, expectDone(await client.request("GET", `${path}?${new URLSearchParams(given)}`))) as {
      data: z.infer<T>[];
      next: z.infer<N> | null;
      unseen: number;
    };
    // Those of a page before, too: it went on to what is older than they are.
    unseen = Math.max(unseen, answer.unseen);
    data.push(...answer.data);
    if (answer.next === null || data.length >= limit) return { data, next: answer.next, unseen };
    before = String(answer.next);
  }
}
