import { existsSync } from "node:fs";
import { builtInFixtures, findFixture, fixtureNames } from "../../sandbox/fixtures/fixture-files.ts";
import { triggerScenarios } from "../../sandbox/fixtures/trigger-scenarios.ts";
import { CommandFailed } from "../io.ts";
import { printable, tableLines } from "../output.ts";
import { ownFixtures } from "../trigger.ts";

interface Listed {
  readonly fixtures: readonly {
    readonly name: string;
    /** Event kind; null for what is no envelope. */
    readonly event: string | null;
    readonly status: string | null;
    /** Null for those that come along. */
    readonly folder: string | null;
    /** Why it cannot be used; null when it can. */
    readonly fault: string | null;
  }[];
  readonly scenarios: readonly { readonly name: string; readonly description: string }[];
}

/** The folders to look through, the user's own first. Throws {@link CommandFailed} when the one named is not there. */
export function fixtureFolders(given: string | undefined): string[] {
  if (given !== undefined && !existsSync(given)) throw new CommandFailed(`there is no folder ${given}`);
  return [given ?? ownFixtures, builtInFixtures];
}

export function listed(given: string | undefined): Listed {
  const folders = fixtureFolders(given);
  return {
    fixtures: [...fixtureNames(folders)].map(([name, folder]) => ({
      name,
      ...described(name, folders),
      folder: folder === builtInFixtures ? null : folder,
    })),
    scenarios: triggerScenarios.map(({ name, description }) => ({ name, description })),
  };
}

function described(name: string, folders: readonly string[]) {
  try {
    const fixture = findFixture(name, folders);
    return { event: fixture?.event ?? null, status: fixture?.status ?? null, fault: null };
  } catch (error) {
    return { event: null, status: null, fault: (error as Error).message };
  }
}

export function listLines({ fixtures, scenarios }: Listed): string[] {
  const events = fixtures.map(({ name, event, status, folder, fault }) => [
    printable(name),
    printable(fault === null ? (event ?? "no envelope") : `cannot be used: ${fault}`),
    printable(status ?? ""),
    printable(folder ?? ""),
  ]);
  return [
    ...tableLines(["EVENT", "KIND", "STATUS", "FROM"], events),
    "",
    ...tableLines(
      ["SCENARIO", "WHAT HAPPENS"],
      scenarios.map(({ name, description }) => [name, description]),
    ),
  ];
}
