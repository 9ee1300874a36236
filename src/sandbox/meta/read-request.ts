import type { Json } from "./update.ts";

/** One update as it is in a request. */
export interface RequestItem {
  readonly wabaId: unknown;
  readonly field: unknown;
  readonly phoneNumberId: unknown;
  /** Null: `item` is the whole value of the change. */
  readonly list: string | null;
  readonly item: unknown;
  readonly contacts: readonly Json[];
}

interface Request {
  readonly entry: readonly { readonly id: unknown; readonly changes: readonly { readonly field: unknown; readonly value: Json }[] }[];
}

/** All updates of a request, read without the relay's own code for it. Throws for a body that is no request of Meta's. */
export function readRequest(body: Buffer): RequestItem[] {
  const { entry } = JSON.parse(body.toString("utf8")) as Request;
  return entry.flatMap(({ id, changes }) =>
    changes.flatMap(({ field, value }): RequestItem[] => {
      const { phone_number_id: phoneNumberId } = (value["metadata"] ?? {}) as Json;
      const about = { wabaId: id, field, phoneNumberId, contacts: (value["contacts"] ?? []) as readonly Json[] };
      const lists = ["statuses", "messages", "calls"].filter((list) => Array.isArray(value[list]));
      if (lists.length === 0) return [{ ...about, list: null, item: value }];
      return lists.flatMap((list) => (value[list] as readonly unknown[]).map((item) => ({ ...about, list, item })));
    }),
  );
}

/** What makes an update the same as another one. Null: it is not an update. */
export function identityOf({ field, list, item }: RequestItem): string | null {
  if (typeof item !== "object" || item === null) return null;
  if (list === null) return JSON.stringify([field, item]);
  const { id, status, event, recipient_participant_id: participant, errors } = item as Json;
  const [error] = (errors ?? []) as readonly Json[];
  return JSON.stringify([list, id, status, event, participant, error?.["code"]]);
}
