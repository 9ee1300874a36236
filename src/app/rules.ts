import type { Settings, SourceSettings } from "../config/schema.ts";
import type { ProxiedSource } from "../deliver/proxy.ts";
import { startOf } from "../hydrate/candidates.ts";
import { type FieldPaths, fieldsSchema } from "../model/event.ts";
import { stepMessage, stepRun } from "../model/tracking.ts";
import type { InboundSource } from "../receive/inbound-source.ts";
import { createPlanner, type Planner } from "../route/plan.ts";
import { isCallable } from "../service/accounts.ts";
import type { Rules } from "../store/port.ts";

interface ReloadableRules extends Rules {
  reload(settings: Settings): void;
}

const unrouted = { ordered: true, firstWait: 0 };

/** The pure rules that the store runs inside its transaction, from the current settings. */
export function createRules(
  settings: Settings,
  failed: NonNullable<Rules["failed"]>,
): ReloadableRules {
  let planner: Planner;
  let timings: Map<string, { ordered: boolean; firstWait: number }>;
  let parkFor: number;
  let callable: ReadonlySet<string>;

  function reload({ accounts, routes, tracking }: Settings): void {
    planner = createPlanner(
      routes.map(({ name, match, emit, truncated }) => ({ name, match, emit, truncated })),
      tracking.unknown,
    );
    timings = new Map(
      routes.map(({ name, to }) => [
        name,
        { ordered: to.order === "message", firstWait: to.retry.schedule[0] ?? 0 },
      ]),
    );
    parkFor = tracking.parkFor;
    callable = new Set(Object.keys(accounts).filter((name) => isCallable(accounts[name])));
  }

  reload(settings);
  return {
    stepMessage,
    stepRun,
    plan: (event, tracking) => planner(event, tracking),
    failed,
    timing: (route) => timings.get(route) ?? unrouted,
    hydration: ({ event, account, hasSubject }) =>
      startOf({ event, hasSubject, hasKey: callable.has(account) }),
    get parkFor() {
      return parkFor;
    },
    reload,
  };
}

const noFields = fieldsSchema.parse({});

/**
 * Where a source has the tracked fields in its data. Only the `standard` format lets the settings
 * say it.
 */
export const fieldsOf = (source: SourceSettings | undefined): FieldPaths =>
  source?.kind === "events" && source.format === "standard" ? source.fields : noFields;

export function inboundSources(settings: Settings): InboundSource[] {
  return Object.entries(settings.sources).map(([name, source]): InboundSource => {
    const { account, kind, signature } = source;
    const inbound = {
      name,
      account,
      kind,
      mode: "ack",
      signature,
      fields: fieldsOf(source),
    } as const;
    if (source.kind === "automation-request") return { ...inbound, mode: source.mode };
    if (source.format === "standard") return inbound;
    const { format, accounts = {}, verifyTokens, header, pathSecrets } = source;
    return { ...inbound, several: { format, accounts, verifyTokens, header, pathSecrets } };
  });
}

export function proxiedSources({ sources }: Settings): ProxiedSource[] {
  return Object.entries(sources).flatMap(([name, source]) =>
    source.kind === "automation-request" && source.mode === "proxy" && source.to !== undefined
      ? [{ name, to: source.to, dedupe: source.dedupe }]
      : [],
  );
}
