import { createHash } from "node:crypto";
import type { QuarantinedBody, ReceivedEvent } from "../model/event.ts";
import { accountOf, formats, requestText } from "../model/formats/formats.ts";
import { derivedUuid, type EventId } from "../model/ids.ts";
import type { InboundSource, SeveralSettings } from "./inbound-source.ts";

/** An item of a request: an event, or a body that is kept as none. */
export type ReceivedItem =
  | { readonly kind: "event"; readonly event: ReceivedEvent }
  | { readonly kind: "quarantined"; readonly body: QuarantinedBody };

type Received = Omit<QuarantinedBody, "error" | "disposition" | "id">;

/** The items of a verified request, in its order. */
export function readItems(
  { format, accounts }: SeveralSettings,
  { name: source, account, fields }: Pick<InboundSource, "name" | "account" | "fields">,
  received: Received,
): readonly ReceivedItem[] {
  const { body } = received;
  const items = formats[format].items(body, { source, fields });
  let digest: string | undefined;
  const digestOfAll = (): string => (digest ??= createHash("sha256").update(body).digest("hex"));
  return items.map(({ body: own, numbers, content }, place): ReceivedItem => {
    const part =
      items.length === 1 ? {} : { request: requestText({ digest: digestOfAll(), bytes: body.length, items: items.length }), place };
    const found = accountOf({ account, accounts }, numbers);
    const item = { ...received, account: found ?? "", format, body: own, ...part };
    if (!content.ok) {
      const id = derivedUuid(`wamid-relay invalid\0${source}\0${digestOfAll()}\0${place}`) as EventId;
      return { kind: "quarantined", body: { ...item, disposition: "quarantined", id, error: content.error } };
    }
    const { envelope, subject } = content;
    if (found !== null) return { kind: "event", event: { ...item, envelope, subject } };
    const error = `no account has the number ${numbers.join(" or ")}`;
    return { kind: "quarantined", body: { ...item, disposition: "unassigned", id: envelope.id, error, number: numbers[0] } };
  });
}
