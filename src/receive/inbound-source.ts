import type { FieldPaths } from "../model/event.ts";
import type { FormatName } from "../model/formats/formats.ts";
import type { Secret } from "../model/secret.ts";
import type { SignatureSettings } from "../model/signature.ts";
import type { OtherChecks } from "./check.ts";

/** One inbound endpoint, as configured. */
export interface InboundSource {
  readonly name: string;
  readonly account: string;
  readonly kind: "events" | "automation-request";
  /** Applies to `automation-request` only. */
  readonly mode: "ack" | "proxy";
  readonly signature: (SignatureSettings & { readonly secrets: readonly Secret[] }) | undefined;
  readonly fields: FieldPaths;
  /** Of a source whose requests may have several events. Absent: the service's own envelope. */
  readonly several?: SeveralSettings | undefined;
}

export interface SeveralSettings extends OtherChecks {
  readonly format: FormatName;
  /** The account of each business number. */
  readonly accounts: Readonly<Record<string, string>>;
  readonly verifyTokens: readonly Secret[];
}
