import { type DestinationStream, type Logger, pino } from "pino";
import { maskText, maskWamid } from "../event/mask.ts";

export type { Logger } from "pino";
export { type LogStream, stdoutStream } from "./log-stream.ts";

export interface LogSettings {
  readonly level: string;
  readonly pii: "masked" | "clear";
}

/** What a log line says about people, made safe by the setting `log.pii`. */
export interface Privacy {
  /** A wamid: its short stand-in, or itself. */
  wamid(text: string): string;
  /** Free text that may hold wamids or phones, such as an error. */
  text(text: string): string;
}

export function createPrivacy(pii: LogSettings["pii"]): Privacy {
  return pii === "clear" ? { wamid: (text) => text, text: (text) => text } : { wamid: maskWamid, text: maskText };
}

/** JSON lines to `stream`. Errors are logged by message and stack, their text masked by the caller's privacy. */
export function createLogger(settings: LogSettings, stream: DestinationStream): Logger {
  const privacy = createPrivacy(settings.pii);
  return pino(
    {
      level: settings.level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: {
        err(error: unknown) {
          if (!(error instanceof Error)) return privacy.text(String(error));
          const { code } = error as { code?: unknown };
          return {
            type: error.name,
            message: privacy.text(error.message),
            ...(typeof code === "string" ? { code } : {}),
            stack: privacy.text(error.stack ?? ""),
          };
        },
      },
    },
    stream,
  );
}
