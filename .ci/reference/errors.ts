import { errorCodes } from "../../src/model/errors.ts";
import { code, table } from "./markdown.ts";

export function errorsPage(): string {
  return table(
    ["code", "status", "meaning", "what to do"],
    Object.entries(errorCodes).map(([name, { status, meaning, remedy }]) => [
      code(name),
      String(status),
      meaning,
      remedy,
    ]),
  );
}
