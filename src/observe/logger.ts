import { type DestinationStream, type Logger, pino } from "pino";
import { type IdSort, maskText, maskWamid, shownDeliveryId, shownId, shownKind } from "../event/mask.ts";
import { createRedactor, type Redactor } from "../event/redact.ts";

export type { Logger } from "pino";
export { type LogStream, stdoutStream } from "./log-stream.ts";

export interface LogSettings {
  readonly level: string;
  readonly pii: "masked" | "clear";
}

/** What a log line says about people, made safe by the setting `log.pii`. Secrets are taken out whatever that says. */
export interface Privacy {
  /** A wamid: its short stand-in, or itself. */
  wamid(text: string): string;
  /** Any other id that comes from outside. */
  id(sort: IdSort, text: string): string;
  /** A delivery's id, which has the event's id in it. */
  delivery(id: string): string;
  /** An event's kind. */
  kind(text: string): string;
  /** Free text that may hold wamids, phones or secrets, such as an error. */
  text(text: string): string;
}

export function createPrivacy(pii: LogSettings["pii"], redactor: Pick<Redactor, "text">): Privacy {
  const asItIs = (text: string) => text;
  return pii === "clear"
    ? { wamid: asItIs, id: (_sort, text) => text, delivery: asItIs, kind: asItIs, text: redactor.text }
    : {
        wamid: maskWamid,
        id: shownId,
        delivery: shownDeliveryId,
        kind: shownKind,
        text: (text) => maskText(redactor.text(text)),
      };
}

/** JSON lines to `stream`, without the secrets that `redactor` knows. Errors are logged by message and stack, their text made safe. */
export function createLogger(settings: LogSettings, stream: DestinationStream, redactor: Redactor = createRedactor({})): Logger {
  const privacy = createPrivacy(settings.pii, redactor);
  return pino(
    {
      level: settings.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: (error: unknown) => errorLine(error, privacy) },
    },
    // Whole lines, so that no field needs to be remembered, nor one that a later line adds.
    { write: (line) => stream.write(redactor.line(line)) },
  );
}

/** An error with its causes; what else it carries (arguments of a command, a request) is left out. */
function errorLine(error: unknown, privacy: Pick<Privacy, "text">, depth = 0): unknown {
  if (!(error instanceof Error)) return privacy.text(String(error));
  const { code, cause } = error as { code?: unknown; cause?: unknown };
  return {
    type: privacy.text(error.name),
    message: privacy.text(error.message),
    ...(typeof code === "string" ? { code: privacy.text(code) } : {}),
    stack: privacy.text(error.stack ?? ""),
    ...(cause === undefined || depth === deepestCause ? {} : { cause: errorLine(cause, privacy, depth + 1) }),
  };
}

const deepestCause = 3;
