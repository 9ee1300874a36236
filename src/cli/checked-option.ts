import { type Command, InvalidArgumentError } from "commander";

/**
 * What `check` makes of an option's text: for values that the settings' schemas check. As a parser of commander's it would
 * have to be loaded, and zod with it, to print help. Where `check` throws InvalidArgumentError it is wrong usage, told as
 * commander tells it.
 */
export function checkedOption<T>(command: Command, name: string, text: string, check: (text: string) => T): T {
  try {
    return check(text);
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error;
    const flags = command.options.find((option) => option.attributeName() === name)?.flags ?? `--${name}`;
    return command.error(`error: option '${flags}' argument '${text}' is invalid. ${error.message}`);
  }
}
