import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { firstAfter } from "../world/first-after.ts";
import type { AccountRecord } from "../world/records.ts";
import type { World } from "../world/world.ts";
import { found, wholeNumber } from "./refusal.ts";

/** Path parameters by name. */
export function params(request: FastifyRequest): Record<string, string> {
  return request.params as Record<string, string>;
}

/** The account that `?account=` names; `main` when none is named. */
export function accountOf(world: World, request: FastifyRequest): AccountRecord {
  const { account = "main" } = request.query as { account?: string };
  return found(world.accounts.get(account), `account ${account}`);
}

/** Any fields beside the ones of a schema for a query: `account`. */
export const pageQuery = z.object({ limit: wholeNumber(1_000).min(1).default(100), after: z.string().optional() });

/**
 * A page of `list`, which is in order of ids: those after `after` that match. `next` is null on the last page, and to be
 * kept for later otherwise. Reads from the place on, not from the beginning.
 */
export function pageOf<T extends { readonly id: string }>(
  list: readonly T[],
  { limit, after }: { readonly limit: number; readonly after?: string | undefined },
  matches: (record: T) => boolean = () => true,
): { data: T[]; next: string | null } {
  const data: T[] = [];
  for (let at = after === undefined ? 0 : firstAfter(list, after); at < list.length; at += 1) {
    const record = list[at] as T;
    if (!matches(record)) continue;
    if (data.length === limit) return { data, next: data.at(-1)?.id ?? null };
    data.push(record);
  }
  return { data, next: null };
}
