import { inboundSources } from "../../app/rules.ts";
import { type FieldPaths, fieldsSchema } from "../../model/event.ts";
import { accountOf, type FormatName, formats, noAccountText } from "../../model/formats/formats.ts";
import { maskWamid } from "../../model/mask.ts";
import { unknownName } from "../../model/nearest.ts";
import { Secret } from "../../model/secret.ts";
import { answerHandshake, type InboundSource, isAnyOf } from "../../receive/inbound-source.ts";
import { createCheck, type SignatureRefusal } from "../../receive/verify-request.ts";
import { CommandFailed, type Io } from "../io.ts";
import type { SettingsOptions } from "../options.ts";
import { print, tableLines } from "../output.ts";
import { isReadable, readableSecrets, readForLooking } from "../settings-option.ts";
import type { RawRequest } from "./captured.ts";
import {
  describeMatch,
  isMetaBody,
  type NamedSecret,
  printHints,
  reportAsJson,
  reportsOf,
} from "./report.ts";

interface Printing {
  readonly json?: boolean | undefined;
}

export function verifyWithSecrets(
  secrets: readonly NamedSecret[],
  request: RawRequest,
  { json }: Printing,
  io: Io,
): void {
  if (isHandshake(request)) {
    const tokens = secrets.map(({ text }) => new Secret(text));
    assessHandshake(request, tokens, { json }, io);
    return;
  }
  const reports = reportsOf(secrets, request);
  const verified = reports.filter(({ matches }) => matches.length > 0);
  const items =
    verified.length > 0 && isMetaBody(request.body)
      ? itemsOf(request.body, {
          format: "meta",
          source: "",
          fields: fieldsSchema.parse({}),
          accounts: null,
        })
      : [];
  print(
    io,
    { json },
    { ...reportAsJson(reports, request.headers), ...(items.length === 0 ? {} : { items }) },
    () => [...verified.flatMap((report) => describeMatch(report, request)), ...itemLines(items)],
  );
  if (verified.length > 0) return;
  if (json !== true) printHints(reports, io);
  throw new CommandFailed(
    reports.every(({ isSupported }) => isSupported)
      ? "no combination of header, algorithm, encoding and content verifies this request with this secret"
      : 'this request is authenticated in a way that the relay does not support; see docs/reference/signatures.md, "Not supported"',
  );
}

const refusals: Readonly<Record<SignatureRefusal, string>> = {
  "missing-signature": "a header or the part of the path that verifies it is missing",
  "malformed-signature": "its signature has another form",
  "missing-timestamp": "the time of its signature is missing",
  "no-match": "none of the source's secrets verifies it",
  "stale-timestamp": "its signature is right, but its time is outside the tolerance now",
};

export function verifyAsSource(
  name: string,
  request: RawRequest,
  options: SettingsOptions & Printing,
  io: Io,
): void {
  const { account, fields, kind, several, signature } = configuredSource(options, name, io);
  if (several !== undefined && isHandshake(request)) {
    assessHandshake(request, several.verifyTokens, options, io);
    return;
  }
  // Path and query, of the whole URL or of a request line.
  const url = several === undefined ? request.url : request.url.replace(/^https?:\/\/[^/?]*/i, "");
  const verified = createCheck(signature, several)({ ...request, url, nowMs: Date.now() });
  const refusal = verified.ok ? null : verified.reason;
  // A captured request is older than the tolerance.
  const ok = refusal === null || refusal === "stale-timestamp";
  const secret = verified.ok ? verified.secret : null;
  const accounts = { account, accounts: several?.accounts ?? {} };
  const items =
    ok && kind === "events"
      ? itemsOf(request.body, {
          format: several?.format ?? "standard",
          source: name,
          fields,
          accounts,
        })
      : [];
  print(io, options, { ok, source: name, secret, refusal, items }, () => {
    if (!ok) return [];
    const note = refusal === null ? [] : [`note: ${refusals[refusal]}`];
    return [
      `The source ${name} verifies it${secret === null ? "" : ` with the secret ${secret} (fingerprint)`}.`,
      ...note,
      ...itemLines(items),
    ];
  });
  if (ok) return;
  if (options.json !== true && signature !== undefined) {
    const secrets = signature.secrets.map((each) => ({
      name: `with the secret ${each.fingerprint()}`,
      variable: "WEBHOOK_SECRET",
      text: each.reveal(),
    }));
    const reports = reportsOf(secrets, request);
    printHints(reports, io);
    if (reports.some(({ matches }) => matches.length > 0))
      io.err("hint: other settings verify it with the same secret; see verify --secret-env");
  }
  throw new CommandFailed(`the source ${name} refuses this request with 401: ${refusals[refusal]}`);
}

function configuredSource(options: SettingsOptions, name: string, io: Io): InboundSource {
  const sources = inboundSources(readForLooking(options, io).settings);
  const found = sources.find((source) => source.name === name);
  if (found === undefined) {
    const names = sources.map((source) => source.name);
    throw new CommandFailed(`${options.config}: ${unknownName("source", name, names)}`);
  }
  const { signature, several } = found;
  return {
    ...found,
    signature: signature && { ...signature, secrets: readableSecrets(signature.secrets) },
    several: several && {
      ...several,
      verifyTokens: several.verifyTokens.filter(isReadable),
      header: several.header && {
        ...several.header,
        values: readableSecrets(several.header.values),
      },
      pathSecrets: several.pathSecrets && readableSecrets(several.pathSecrets),
    },
  };
}

const queryOf = ({ url }: RawRequest) => new URLSearchParams(url.slice(url.indexOf("?") + 1));

function isHandshake(request: RawRequest): boolean {
  return (
    request.method === "GET" && [...queryOf(request).keys()].some((key) => key.startsWith("hub."))
  );
}

/** Throws {@link CommandFailed} when the relay would answer 403. */
function assessHandshake(
  request: RawRequest,
  tokens: readonly Secret[],
  options: Printing,
  io: Io,
): void {
  const fault = answerHandshake(request.url, tokens).isRight
    ? null
    : handshakeFault(queryOf(request), tokens);
  print(io, options, { ok: fault === null, handshake: { fault } }, () =>
    fault === null ? ["Meta's handshake: the relay answers it with its challenge."] : [],
  );
  if (fault !== null)
    throw new CommandFailed(`Meta's handshake: the relay answers it with 403, because ${fault}`);
}

function handshakeFault(query: URLSearchParams, tokens: readonly Secret[]): string {
  if (query.get("hub.mode") !== "subscribe") return "hub.mode is not subscribe";
  const token = query.get("hub.verify_token") ?? "";
  if (token === "") return "hub.verify_token is missing";
  if (isAnyOf(tokens, token) === undefined) return "hub.verify_token is none of these tokens";
  return "hub.challenge is missing or too long";
}

interface Reader {
  readonly format: FormatName;
  readonly source: string;
  readonly fields: FieldPaths;
  /** Null: not known, so no item is unassigned. */
  readonly accounts: Parameters<typeof accountOf>[0] | null;
}

function itemsOf(body: Buffer, { format, source, fields, accounts }: Reader) {
  return formats[format].items(body, { source, fields }).map(({ content, numbers }, place) => {
    const account = accounts && accountOf(accounts, numbers);
    const [result, reason] = !content.ok
      ? ["quarantined", content.error]
      : accounts !== null && account === null
        ? ["unassigned", noAccountText(numbers)]
        : ["event", null];
    const { event = null, id = null } = content.ok ? content.envelope : {};
    const message = content.ok && content.subject.type === "message" ? content.subject : null;
    return {
      place,
      numbers,
      account,
      result,
      reason,
      event,
      status: message?.status ?? null,
      wamid: message && maskWamid(message.wamid),
      id,
    };
  });
}

function itemLines(items: ReturnType<typeof itemsOf>): string[] {
  if (items.length === 0) return [];
  const table = tableLines(items, {
    ITEM: ({ place }) => place,
    EVENT: ({ event }) => event,
    STATUS: ({ status }) => status,
    NUMBER: ({ numbers }) => numbers[0] ?? null,
    ACCOUNT: ({ account }) => account,
    WAMID: ({ wamid }) => wamid,
    RESULT: ({ result, reason }) => (reason === null ? result : `${result}: ${reason}`),
  });
  return ["", ...table];
}
