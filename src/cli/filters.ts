import { type Command, Option } from "commander";
import type { RequestOf } from "../client/relay-client.ts";
import { deliveryStates, dispositions } from "../model/states.ts";
import { choice, count, type TimeOptions, timeFilter, withTimeOptions } from "./options.ts";
import type { Typed } from "./typed.ts";

type ListName = "listEvents" | "listDeliveries" | "groupDeliveries" | "replay";
type OfReplay = "states" | "dryRun" | "cursor";
/** All parameters but those that have options of their own. */
type FilterName<Name extends ListName> = Exclude<
  keyof RequestOf<Name>,
  "from" | "to" | "before" | "limit" | "reveal" | OfReplay
>;
type Filter<Name extends ListName> = {
  readonly [Key in FilterName<Name>]?: RequestOf<Name>[Key] | undefined;
};

/** The option of each filter of a list. One that the API gets does not compile without. */
type FilterOptions<Name extends ListName> = { readonly [Key in FilterName<Name>]-?: Option };

export const eventFilters: FilterOptions<"listEvents"> = {
  event: new Option("--event <kind>", "of this kind, such as message.status"),
  source: new Option("--source <name>", "from this source"),
  account: new Option("--account <name>", "of this account"),
  status: new Option("--status <word>", "with this status, such as failed"),
  disposition: choice("--disposition <word>", "with this disposition", dispositions),
  errorCode: new Option("--error-code <code>", "with this error code, such as 131026"),
  wamid: new Option("--wamid <wamid>", "about this message").conflicts(["subject", "q"]),
  subject: new Option(
    "--subject <id>",
    "about this message or run, by its wamid or run id",
  ).conflicts("q"),
  request: new Option("--request <digest>", "that came in this request, as events show names it"),
  q: new Option(
    "--query <name>",
    "of this event, delivery, message or run: id, seq, reference, user id of Meta, or last digits of the phone",
  ),
};

export const groupFilters: FilterOptions<"groupDeliveries"> = {
  route: new Option("--route <name>", "of this route"),
  state: choice("--state <word>", "in this state; dead ones are the dead letters", deliveryStates),
  errorCode: new Option("--error-code <code>", "whose event has this error code, such as 131026"),
};

const cause = new Option(
  "--cause <cause>",
  "whose last failed attempt failed for this, such as 503 or timeout; none: no attempt failed",
);

export const deliveryFilters: FilterOptions<"listDeliveries"> = {
  ...groupFilters,
  cause,
};

export const replayFilters: FilterOptions<"replay"> = {
  route: new Option("--route <name>", "of this route only"),
  cause,
  disposition: choice(
    "--disposition <word>",
    "of events with this disposition: filtered and ignored ones are judged anew, quarantined and unassigned ones released",
    ["routed", "filtered", "ignored", "quarantined", "unassigned"],
  ),
  source: new Option(
    "--source <name>",
    "with --disposition quarantined or unassigned: received by this source",
  ),
  event: new Option(
    "--event <seq>",
    "with --disposition quarantined or unassigned: only this seq",
  ).argParser(count),
  errorCode: groupFilters.errorCode,
};

export function withFilters<Name extends ListName, Options, Arguments extends unknown[]>(
  command: Typed<Options, Arguments>,
  filters: FilterOptions<Name>,
) {
  for (const [name, option] of Object.entries<Option>(filters)) {
    option.attributeName = () => name;
    command.addOption(option);
  }
  return withTimeOptions(command as Typed<Options & Filter<Name>, Arguments>);
}

export function chosen<Name extends ListName>(
  command: Command,
  options: Filter<Name> & TimeOptions,
  filters: FilterOptions<Name>,
) {
  const chosen = Object.fromEntries(
    Object.keys(filters).map((name) => [name, options[name as FilterName<Name>]]),
  );
  return { ...(chosen as Filter<Name>), ...timeFilter(command, options) };
}
