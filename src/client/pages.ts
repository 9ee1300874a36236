import type { Connection } from "./connection.ts";

const largestPage = 500;

interface Page<T> {
  readonly data: readonly T[];
  readonly next: string | number | null;
}

/** Asks for page after page, when they are wanted, until there are `limit` items or no more. */
export async function* readPages<T>(
  connection: Connection,
  path: string,
  filter: Readonly<Record<string, unknown>>,
  limit = Number.POSITIVE_INFINITY,
): AsyncGenerator<T, void> {
  let left = limit;
  let before: string | number | undefined;
  while (left > 0) {
    const query = asQuery({ ...filter, before, limit: Math.min(largestPage, left) });
    const { data, next }: Page<T> = await connection.json("GET", `${path}?${query}`);
    for (const item of data.slice(0, left)) yield item;
    left -= data.length;
    if (next === null) return;
    before = next;
  }
}

function asQuery(values: Readonly<Record<string, unknown>>): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined) query.set(name, value instanceof Date ? value.toISOString() : String(value));
  }
  return query;
}
