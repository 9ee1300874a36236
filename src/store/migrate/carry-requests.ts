import { boundsOf, type Carrier, type CarrierParts, rowsAtOnce } from "./carrier.ts";

interface Row {
  seq: number;
  request: string;
  id: string;
  until: number;
}

/** Which event a signed automation request is, for as long as that holds. */
export function carryRequests({ source }: CarrierParts): Carrier {
  const select = source.db.prepare<[number, number], Row>("SELECT * FROM requests WHERE seq > ? ORDER BY seq LIMIT ?");
  return {
    kind: "automation requests",
    ...boundsOf(source, "requests"),
    next(after, batch) {
      const rows = select.all(after, rowsAtOnce);
      for (const { request, id, until } of rows) batch.expiring(`req:${request}`, id, until);
      return rows.at(-1)?.seq ?? null;
    },
  };
}
