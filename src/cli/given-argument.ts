import { InvalidArgumentError } from "commander";

/** An argument that is something: an empty one is a variable of a script that was not set, and would be no end of a path. */
export function givenArgument(text: string): string {
  if (text === "") throw new InvalidArgumentError("It is empty; is a variable not set?");
  return text;
}
