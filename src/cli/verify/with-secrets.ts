import { fieldsSchema } from "../../model/event.ts";
import { Secret } from "../../model/secret.ts";
import { CommandFailed, type Io } from "../io.ts";
import { print } from "../output.ts";
import type { RawRequest } from "./captured.ts";
import { checkHandshake, printHandshake } from "./handshake.ts";
import { isMetaBody, itemLines, itemsOf } from "./items.ts";
import { describeMatch, type NamedSecret, printHints, reportAsJson, reportsOf } from "./report.ts";

/** Finds the settings that verify a request with one of the secrets. Throws {@link CommandFailed} when there are none. */
export function verifyWithSecrets(
  secrets: readonly NamedSecret[],
  request: RawRequest,
  { json }: { readonly json?: boolean | undefined },
  io: Io,
): void {
  const tokens = secrets.map(({ text }) => new Secret(text));
  const handshake = checkHandshake(request, tokens);
  if (handshake !== null) {
    printHandshake(handshake, { json }, io);
    return;
  }
  const reports = reportsOf(secrets, request);
  const verified = reports.filter(({ matches }) => matches.length > 0);
  const items =
    verified.length > 0 && isMetaBody(request.body)
      ? itemsOf(request.body, { format: "meta", source: "", fields: fieldsSchema.parse({}), accounts: null })
      : [];
  print(io, { json }, { ...reportAsJson(reports, request.headers), ...(items.length === 0 ? {} : { items }) }, () => [
    ...verified.flatMap((report) => describeMatch(report, request)),
    ...(items.length === 0 ? [] : ["", ...itemLines(items)]),
  ]);
  if (verified.length > 0) return;
  if (json !== true) printHints(reports, io);
  if (reports.some(({ isSupported }) => !isSupported)) {
    throw new CommandFailed(
      'this request is authenticated in a way that the relay does not support; see docs/reference/signatures.md, "Not supported"',
    );
  }
  throw new CommandFailed("no combination of header, algorithm, encoding and content verifies this request with this secret");
}
