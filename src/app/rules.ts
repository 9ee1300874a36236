import type { Settings } from "../config/schema.ts";
import type { ProxiedSource } from "../deliver/proxy.ts";
import { startOf } from "../hydrate/candidates.ts";
import { fieldsSchema } from "../model/event.ts";
import type { InboundSource } from "../receive/inbound-source.ts";
import { createPlanner, type Planner } from "../route/plan.ts";
import { isCallable } from "../service/accounts.ts";
import type { Rules } from "../store/port.ts";
import { stepMessage, stepRun } from "../track/states.ts";

interface ReloadableRules extends Rules {
  reload(settings: Settings): void;
}

const unrouted = { ordered: true, firstWait: 0 };

/** The pure rules that the store runs inside its transaction, from the current settings. */
export function createRules(settings: Settings, failed: NonNullable<Rules["failed"]>): ReloadableRules {
  let planner: Planner;
  let timings: Map<string, { ordered: boolean; firstWait: number }>;
  let parkFor: number;
  let callable: ReadonlySet<string>;

  function reload({ accounts, routes, tracking }: Settings): void {
    planner = createPlanner(
      routes.map(({ name, match, emit, truncated }) => ({ name, match, emit, truncated })),
      tracking.unknown,
    );
    timings = new Map(routes.map(({ name, to }) => [name, { ordered: to.order === "message", firstWait: to.retry.schedule[0] ?? 0 }]));
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
    hydration: ({ event, account, hasSubject }) => startOf({ event, hasSubject, hasKey: callable.has(account) }),
    get parkFor() {
      return parkFor;
    },
    reload,
  };
}

const noFields = fieldsSchema.parse({});

export function inboundSources(settings: Settings): InboundSource[] {
  return Object.entries(settings.sources).map(([name, source]): InboundSource => {
    const { account, kind, signature } = source;
    if (source.kind === "automation-request") return { name, account, kind, mode: source.mode, signature, fields: noFields };
    if (source.format === "standard") return { name, account, kind, mode: "ack", signature, fields: source.fields };
    const { format, accounts = {}, verifyTokens, header, pathSecrets } = source;
    return {
      name,
      account,
      kind,
      mode: "ack",
      signature,
      fields: noFields,
      several: { format, accounts, verifyTokens, header, pathSecrets },
    };
  });
}

export function proxiedSources({ sources }: Settings): ProxiedSource[] {
  return Object.entries(sources).flatMap(([name, source]) =>
    source.kind === "automation-request" && source.mode === "proxy" && source.to !== undefined
      ? [{ name, to: source.to, dedupe: source.dedupe }]
      : [],
  );
}
