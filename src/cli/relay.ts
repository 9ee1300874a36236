import type { Command } from "commander";
import type { ControlClient } from "./control-client.ts";
import type { Given } from "./hints.ts";
import type { Io } from "./io.ts";
import type { RelayOptions } from "./options.ts";
import { type Columns, print, tableLines } from "./output.ts";
import type { withRelay as WithRelay } from "./reach-relay.ts";

/** Loaded when a command runs: its help needs none of what reaches a relay. */
export const withRelay: typeof WithRelay = async (...given) =>
  (await import("./reach-relay.ts")).withRelay(...given);

/** After a command that made deliveries due. PostgreSQL may have a worker elsewhere. */
export function noteWithoutRelay({ isStore }: ControlClient, io: Io): void {
  if (isStore) io.err("note: no relay answered; deliveries go out while one runs");
}

interface Page<Next, Row> {
  readonly data: Row[];
  readonly next: Next | null;
}

/** Prints the newest rows of a list. `older`: what is after them. */
export async function printList<Next extends string | number, Row>(
  command: Command,
  options: RelayOptions &
    Given & {
      readonly limit: number;
      readonly before?: Next | undefined;
      readonly json?: boolean | undefined;
    },
  io: Io,
  list: (
    client: ControlClient,
    place: { before: Next | undefined; limit: number },
  ) => Promise<Page<Next, Row>>,
  older: string,
  columns: Columns<Row>,
): Promise<void> {
  const { readPages } = await import("./control-client.ts");
  const { limit, before, json } = options;
  const found = await withRelay(command, options, io, "read", (client) =>
    readPages((place) => list(client, place), limit, before),
  );
  const { data, next } = found;
  if (data.length === 0 && next === null)
    await (await import("./hints.ts")).printHints(options, options, io);
  print(io, options, found, () => tableLines(data, columns));
  if (next !== null && json !== true)
    io.err(`there are ${older}: --before ${next}, or a greater --limit`);
}
