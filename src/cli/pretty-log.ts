import type { Settings } from "../config/schema.ts";
import type { LogStream } from "../observe/logger.ts";
import type { Io } from "./io.ts";
import { printable } from "./io.ts";

/**
 * `out` itself for JSON lines; else a stream that writes each JSON line to it as text for people.
 */
export async function logOutput(
  format: Settings["log"]["format"],
  out: LogStream,
  io: Pick<Io, "isTerminal" | "env">,
): Promise<LogStream> {
  if (format === "json" || (format === "auto" && !io.isTerminal)) return out;
  // Loaded only when used, so that a relay in a container starts without it.
  const { prettyFactory } = await import("pino-pretty");
  const { NO_COLOR: noColor = "", TERM: terminal } = io.env;
  const pretty = prettyFactory({
    colorize: io.isTerminal && noColor === "" && terminal !== "dumb",
    singleLine: true,
    translateTime: "SYS:HH:MM:ss.l",
  });
  return {
    write: (line) => out.write(pretty(parsed(line))),
    end: () => out.end(),
  };
}

/** The line itself where a removed secret left no valid JSON. */
function parsed(line: string): unknown {
  try {
    return JSON.parse(line, safeText);
  } catch {
    return line;
  }
}

/** JSON escapes what a terminal would act upon; parsed, it would reach the terminal. */
function safeText(key: string, value: unknown): unknown {
  if (typeof value !== "string") return value;
  return key === "stack" ? value.split(/\r?\n/).map(printable).join("\n") : printable(value);
}
