import { isUtf8 } from "node:buffer";
import { createHash } from "node:crypto";
import { parseEnvelope } from "../model/envelope.ts";
import { type QuarantinedBody, type ReceivedEvent, subjectOf } from "../model/event.ts";
import { accountOf, formats, requestText } from "../model/formats/formats.ts";
import { derivedUuid, type EventId, uuidv7 } from "../model/ids.ts";
import { createCheck, type InboundSource, type SeveralSettings } from "./inbound-source.ts";
import type { SignatureRefusal, VerifiableRequest } from "./signature/verify.ts";

export type ReceivedItem =
  | { readonly kind: "event"; readonly event: ReceivedEvent }
  | { readonly kind: "quarantined"; readonly body: QuarantinedBody };

export type VerifiedRequest =
  | ReceivedItem
  /** `read` parses the body, which may be large. */
  | { readonly kind: "several"; readonly read: () => readonly ReceivedItem[] }
  | { readonly kind: "refused"; readonly reason: SignatureRefusal };

/** It has no envelope, so the relay makes one. */
export const automationRequest = "automation.request";

type Received = Omit<QuarantinedBody, "error" | "disposition" | "id">;

/** Adds what a trace needs. `startedAt` is of `performance.now()`. */
export type Traced = (received: Received, traceparent: unknown, startedAt: number) => Received;

/** `traced`: absent while traces are off. */
export function createRequestVerifier(source: InboundSource, traced?: Traced) {
  const verify = createCheck(source.signature, source.several);
  return (request: VerifiableRequest, startedAt: number): VerifiedRequest => {
    const { headers, body, nowMs: now } = request;
    const verified = verify(request);
    if (!verified.ok) return { kind: "refused", reason: verified.reason };
    const plain: Received = {
      account: source.account,
      source: source.name,
      origin: "webhook",
      receivedAt: now,
      body,
      // No content type: a valid envelope is JSON whatever its content type was.
      headers: verified.headers,
      secret: verified.secret,
    };
    const received = traced?.(plain, headers["traceparent"], startedAt) ?? plain;
    const { several } = source;
    if (several !== undefined) return { kind: "several", read: () => readItems(several, source, received) };
    if (source.kind === "automation-request") {
      const json = readJson(body);
      const envelope = {
        id: uuidv7(now) as EventId,
        event: automationRequest,
        createdAt: new Date(now).toISOString(),
        data: isObject(json) ? json : {},
      };
      const contentType = headers["content-type"] || (json === undefined ? "application/octet-stream" : "application/json");
      const encoding = headers["content-encoding"];
      const bodyHeaders = { "content-type": contentType, ...(encoding ? { "content-encoding": encoding } : {}) };
      return {
        kind: "event",
        event: {
          ...received,
          headers: { ...received.headers, ...bodyHeaders },
          envelope,
          subject: { type: "none" },
          request: requestName(source.name, verified.digest),
        },
      };
    }
    // As the format `standard` does, without the list of one item.
    const parsed = parseEnvelope(body);
    if (!parsed.ok) return { kind: "quarantined", body: { ...received, error: parsed.error } };
    const { envelope } = parsed;
    return { kind: "event", event: { ...received, envelope, subject: subjectOf(envelope, source.fields, body) } };
  };
}

function requestName(source: string, digest: Buffer): string {
  return createHash("sha256").update(`${source}\0`).update(digest).digest("base64url");
}

/** An automation may send any body. */
function readJson(body: Buffer): unknown {
  if (!isUtf8(body)) return undefined;
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function readItems(
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
