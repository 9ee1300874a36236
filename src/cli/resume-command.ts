import type { Command } from "commander";
import { givenArgument } from "./given-argument.ts";
import type { Io } from "./io.ts";
import { printable, printableJson } from "./printable.ts";
import { type RelayOptions, withRelayOptions } from "./relay-options.ts";

/** Adds `resume`: a destination that was stopped (410 Gone) is sent to again. */
export function addResumeCommand(program: Command, io: Io): void {
  const resume = withRelayOptions(program.command("resume").argument("<route>", "name of the route", givenArgument));
  resume
    .description("start a route whose destination was stopped because it answered 410 Gone; what waited for it goes out")
    .option("--json", "print {route, resumed} as JSON")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay doctor                      says which destinations are stopped
  wamid-relay resume failures-to-crm`,
    )
    .action(async (route: string, options: RelayOptions & { readonly json?: boolean }) => {
      const [{ readAnswer, resumedSchema }, { expectDone, withWriting }] = await Promise.all([
        import("./control-views.ts"),
        import("./reach-relay.ts"),
      ]);
      const { resumed } = await withWriting(resume, options, io, "replay", async (client) =>
        readAnswer(resumedSchema, expectDone(await client.request("POST", `/v1/routes/${encodeURIComponent(route)}/resume`))),
      );
      if (options.json === true) io.out(printableJson({ route, resumed }));
      else io.out(printable(resumed ? `${route}: started again` : `${route}: was not stopped`));
    });
}
