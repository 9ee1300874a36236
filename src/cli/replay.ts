import { type Command, InvalidArgumentError, Option } from "commander";
import type { Io } from "./io.ts";
import { count, type RelayOptions, type TimeOptions, timeOptions, withRelayOptions } from "./options.ts";

export interface ReplayOptions extends RelayOptions, TimeOptions {
  readonly route?: string;
  readonly state: string;
  readonly errorCode?: string;
  readonly disposition?: string;
  readonly source?: string;
  readonly event?: number;
  /** Checked when it runs. */
  readonly rate?: string;
  readonly resume?: string;
  readonly checkpoint?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}

/** More than this many are not sent again without `--yes`. */
export const askFrom = 1_000;

/** Adds `replay`: sends everything that a filter matches again. */
export function addReplayCommand(program: Command, io: Io): void {
  const replay = withRelayOptions(program.command("replay"));
  replay
    .description("send again all deliveries that match: dead letters, or delivered ones too")
    .option("--route <name>", "of this route only")
    .addOption(new Option("--state <word>", "which ones").choices(["dead", "delivered", "any"]).default("dead"))
    .addOption(
      new Option(
        "--disposition <word>",
        "of events with this disposition: filtered and ignored ones are judged anew, quarantined ones released",
      ).choices(["routed", "filtered", "ignored", "quarantined"]),
    )
    .option("--source <name>", "with --disposition quarantined: received by this source")
    .option("--event <seq>", "with --disposition quarantined: this one alone", count)
    .option("--error-code <code>", "whose event has this error code, such as 131026");
  for (const option of timeOptions()) replay.addOption(option);
  replay
    .option("--rate <rate>", "at most so many, such as 50/s or 300/m")
    .option("--dry-run", "only count")
    .addOption(new Option("--resume <place>", "go on at the place that an ended replay said, with the same options").argParser(place))
    .option("--checkpoint <file>", "remember there how far it is, and go on from there")
    .option("--yes", `do it without asking; needed for delivered ones and for more than ${askFrom} when nobody can be asked`)
    .option("--json", "print {matching, replayed} as JSON")
    .addHelpText(
      "after",
      `
Each goes out under its old id, in order per message, and has all its attempts again. What settles while a
replay runs is not taken up again. Ctrl-C ends it after the step under way, and says how to go on; with --checkpoint
the same command goes on, also after a crash. Downstream sees the header webhook-replay: true.

--disposition quarantined reads each body again. One that is a valid event by now is accepted as an event, after all
that came before; one that is not stays, with its reason.

Examples:
  wamid-relay replay --dry-run
  wamid-relay replay --route failures-to-crm --since 2d
  wamid-relay replay --disposition ignored --since 6h --yes
  wamid-relay replay --disposition quarantined --dry-run
  wamid-relay replay --disposition quarantined --event 1234 --yes
  wamid-relay replay --state delivered --from 2026-11-20T08:00:00Z --to 2026-11-20T09:00:00Z --yes --rate 50/s --checkpoint replay.json`,
    )
    .action(async (options: ReplayOptions) => {
      const { replayMatching } = await import("./replay-run.ts");
      await replayMatching(replay, options, io);
    });
}

function place(text: string): string {
  if (!/^\d{1,15}\.\d{1,15}\.\d{1,15}$/.test(text)) throw new InvalidArgumentError("It must be the place that an ended replay said.");
  return text;
}
