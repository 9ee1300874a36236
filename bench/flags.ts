import { type ParseArgsConfig, parseArgs } from "node:util";

/**
 * Reads the flags of a bench. `--help` prints `usage` and ends the process with 0, a wrong flag
 * ends it with 2.
 */
export function readFlags<Options extends NonNullable<ParseArgsConfig["options"]>>(
  usage: string,
  options: Options,
) {
  try {
    const { values } = parseArgs({
      options: { ...options, help: { type: "boolean" } },
      strict: true,
      allowPositionals: false,
    });
    if ("help" in values && values.help === true) {
      console.log(usage);
      process.exit(0);
    }
    return values;
  } catch (error) {
    console.error(`${(error as Error).message}\n${usage}`);
    process.exit(2);
  }
}

/** A flag's number, which must be above zero; `fallback` when the flag was not given. */
export function numberFlag(name: string, text: string | undefined, fallback: number): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  console.error(`--${name} must be a number above zero`);
  process.exit(2);
}
