import type { AnswerOf } from "../../client/relay-client.ts";
import type { Settings } from "../../config/schema.ts";
import type { DeliveryGroup } from "../../model/answers/events.ts";
import { about, conditionOf, conditions } from "../../model/attention.ts";
import type { DatabaseRisk } from "../../model/database.ts";
import { spanText } from "../../model/unit-text.ts";
import type { ControlClient, Reachable } from "../control-client.ts";
import { counted } from "../output.ts";
import { authorized } from "../reach-relay.ts";
import { type Finding, fail, ok, orFail, skip, warn } from "./finding.ts";

type Overview = AnswerOf<"getOverview">;
type Source = AnswerOf<"listSources">["data"][number];
export type Report = Awaited<ReturnType<typeof readReport>>;

export async function readReport(client: ControlClient) {
  const { at, attention, destinations } = await client.getOverview();
  const { data: groups } = await client.groupDeliveries();
  const { data: secrets } = await client.listSecrets();
  const { data: sources } = await client.listSources();
  return { at: Date.parse(at), attention, destinations, groups, secrets, sources };
}

const levelOf = (severity: "error" | "warning") => (severity === "error" ? "fail" : "warn");

export function assessAttention(
  entries: readonly Pick<Overview["attention"][number], "kind" | "severity" | "subject" | "text">[],
): Finding[] {
  if (entries.length === 0) return [ok("attention", "nothing needs action")];
  return entries.map(({ kind, severity, subject, text }) => {
    const { command } = conditions[conditionOf({ kind, severity })];
    return {
      check: kind,
      level: levelOf(severity),
      message: text,
      ...(command && { todo: about(command, subject) }),
    };
  });
}

/** The same of a server without a store, which no relay judges. */
export function assessRisk({ condition, text, cure }: DatabaseRisk): Finding {
  const { kind, severity } = conditions[condition];
  return { check: kind, level: levelOf(severity), message: text, todo: cure };
}

export function assessBacklog(groups: readonly Pick<DeliveryGroup, "state" | "count">[]): Finding {
  const waiting = groups.reduce(
    (sum, { state, count }) => (state === "dead" ? sum : sum + count),
    0,
  );
  return ok("backlog", `${counted(waiting, "delivery")} ${waiting === 1 ? "waits" : "wait"}`);
}

/**
 * Meta's handshake with each source that has verify tokens, and the numbers that events came for.
 * `at`: the relay's time.
 */
export function assessSources(sources: readonly Source[], at: number): Finding[] {
  return sources.flatMap(({ source, handshake, numbers }) => [
    ...(handshake === null ? [] : [assessHandshake(source, handshake.doneAt, numbers.length > 0)]),
    ...numbers.map(({ number, account, lastAt }) => {
      const last = `the last event came ${spanText(at - Date.parse(lastAt))} ago`;
      if (account !== null)
        return ok("source", `${source}: number or WABA ${number}, account ${account}: ${last}`);
      const todo = `add it to sources.${source}.accounts, reload, and release its events: wamid-relay replay --disposition unassigned`;
      return warn("source", `${source}: number or WABA ${number} has no account: ${last}`, todo);
    }),
  ]);
}

function assessHandshake(source: string, doneAt: string | null, hasEvents: boolean): Finding {
  if (doneAt !== null) return ok("source", `${source}: Meta performed the handshake on ${doneAt}`);
  // An override or another app may have been verified before this store began.
  if (hasEvents) return ok("source", `${source}: no handshake was received, but events are`);
  const todo = `enter the callback URL that ends in /webhooks/${source} and a verify token in the dashboard of the app at Meta`;
  return warn("source", `${source}: no handshake was received yet`, todo);
}

/** The relay as the one who performs handshakes and asks Meta. */
export interface Acting {
  /** With the scope `replay`. Null: see `why`. */
  readonly client: ControlClient | null;
  readonly why: string;
  /** Also handshakes that succeeded before. */
  readonly repeat: boolean;
}

/** `at`: where the relay of the settings answers; null: it does not. */
export function actingAt(
  at: Reachable | null,
  { control }: Settings,
  {
    config,
    offline,
    handshake,
  }: { readonly config: string; readonly offline: boolean; readonly handshake: boolean },
): Acting {
  const missing = `no token in ${config} has the scope replay for all accounts`;
  const why = offline
    ? "--offline"
    : at === null
      ? "the relay performs it, and does not answer"
      : missing;
  return {
    client: offline || at === null ? null : authorized(at, control.tokens, "replay"),
    why,
    repeat: handshake,
  };
}

/** Meta's handshake with the destinations that have a `verifyToken`, one at a time. */
export async function checkHandshakes(
  destinations: Overview["destinations"],
  { client, why, repeat }: Acting,
): Promise<Finding[]> {
  const check = "handshake";
  const findings: Finding[] = [];
  for (const { route, handshake } of destinations) {
    if (handshake === null) continue;
    const done = (at: string | null) => ok(check, `${route}: done on ${at}`);
    if (handshake.doneAt !== null && !(repeat && client !== null))
      findings.push(done(handshake.doneAt));
    else if (client === null) findings.push(skip(check, `${route}: ${why}`));
    else {
      const todo = `correct to.url and to.verifyToken of ${route}, and see whether the app runs`;
      const perform = async () => {
        const { problem, doneAt } = await client.performHandshake({ route, repeat });
        if (problem === null) return [done(doneAt)];
        const before =
          doneAt === null
            ? ""
            : `; it succeeded on ${doneAt}, and the app may take its token only once`;
        return [fail(check, `${route}: ${problem}${before}`, todo)];
      };
      findings.push(...(await orFail(check, `${route}: `, todo, perform)));
    }
  }
  return findings;
}

/**
 * Whether Meta sends the webhooks of each source with `graph` there, as its Graph API says. The
 * relay asks.
 */
export async function checkCallbacks(
  sources: Settings["sources"],
  { client, why }: Acting,
): Promise<Finding[]> {
  const check = "callback";
  const todo = "see docs/how-to/connect-meta.md";
  const findings: Finding[] = [];
  for (const [source, settings] of Object.entries(sources)) {
    if (settings.kind !== "events" || settings.format !== "meta" || settings.graph === undefined)
      continue;
    const ask = async () => {
      if (client === null) return [skip(check, `${source}: ${why}`)];
      const { problems, facts } = await client.checkSource({ source });
      return [
        ...problems.map((text) => fail(check, `${source}: ${text}`, todo)),
        ...facts.map((text) => ok(check, `${source}: ${text}`)),
      ];
    };
    findings.push(...(await orFail(check, `${source}: `, todo, ask)));
  }
  return findings;
}
