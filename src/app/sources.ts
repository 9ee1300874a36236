import type { Settings } from "../config/schema.ts";
import type { ProxiedSource } from "../deliver/proxy.ts";
import { fieldsSchema } from "../model/event.ts";
import type { InboundSource } from "../receive/verify-request.ts";

const noFields = fieldsSchema.parse({});

/** The sources of the settings, as the receiver takes them. */
export function inboundSources(settings: Settings): InboundSource[] {
  return Object.entries(settings.sources).map(([name, source]) =>
    source.kind === "events"
      ? { name, account: source.account, kind: source.kind, mode: "ack", signature: source.signature, fields: source.fields }
      : { name, account: source.account, kind: source.kind, mode: source.mode, signature: source.signature, fields: noFields },
  );
}

/** The sources with `mode: proxy`. */
export function proxiedSources({ sources }: Settings): ProxiedSource[] {
  return Object.entries(sources).flatMap(([name, source]) =>
    source.kind === "automation-request" && source.mode === "proxy" && source.to !== undefined
      ? [{ name, to: source.to, dedupe: source.dedupe }]
      : [],
  );
}
