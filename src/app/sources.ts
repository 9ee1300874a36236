import type { Settings } from "../config/schema.ts";
import { fieldsSchema } from "../model/event.ts";
import type { InboundSource } from "../receive/verify-request.ts";

const noFields = fieldsSchema.parse({});

/** The settings' sources as receiving takes them. */
export function inboundSources(settings: Settings): InboundSource[] {
  return Object.entries(settings.sources).map(([name, source]) =>
    source.kind === "events"
      ? { name, account: source.account, kind: source.kind, mode: "ack", signature: source.signature, fields: source.fields }
      : { name, account: source.account, kind: source.kind, mode: source.mode, signature: source.signature, fields: noFields },
  );
}
