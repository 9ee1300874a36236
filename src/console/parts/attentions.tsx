import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import type { RelayOverview } from "../../client/relay-client.ts";
import { path } from "../app/data.ts";
import { useSession } from "../app/session.tsx";
import { type Action, ActionDialog } from "./action.tsx";
import { isReleasable, releaseAction, resumeAction, retryAction, useObstacles } from "./actions.ts";
import { shapes } from "./status.tsx";
import { Ago, Time } from "./time.tsx";

type Attention = RelayOverview["attention"][number];

/**
 * What needs action, each with the rows behind it and what to do. The dialog of an action outlives
 * its entry. `none`: in place of an empty list.
 */
export function Attentions({
  entries,
  label,
  none = null,
}: {
  entries: readonly Attention[];
  label: string;
  none?: ComponentChildren;
}) {
  const [action, setAction] = useState<Action | null>(null);
  return (
    <>
      {entries.length === 0 ? (
        none
      ) : (
        <ul class="attentions" aria-label={label}>
          {entries.map((each) => (
            <li key={`${each.kind} ${each.subject}`}>
              <span>
                <Mark kind={each.kind} /> <bdi>{each.text}</bdi>
              </span>
              <span class="dim">
                {each.since !== null && (
                  <>
                    since <Time at={each.since} />
                  </>
                )}
                {each.nextAt !== null ? (
                  <>
                    {" "}
                    · next try <Ago at={each.nextAt} past="now" />
                  </>
                ) : (
                  each.kind === "destination-failing" && each.action !== null && " · next try now"
                )}
              </span>
              <span class="act">
                <Link href={rowsOf(each)}>View</Link>
                <Act attention={each} start={setAction} />
              </span>
            </li>
          ))}
        </ul>
      )}
      <ActionDialog action={action} close={() => setAction(null)} />
    </>
  );
}

function Mark({ kind }: Pick<Attention, "kind">) {
  const tone = kind.endsWith("-stopped") ? "stopped" : "attention";
  return (
    <span class={`tone-${tone}`} aria-hidden="true">
      {shapes[tone]}
    </span>
  );
}

/** The rows behind an entry. */
function rowsOf({ kind, subject }: Attention): string {
  switch (kind) {
    case "destination-failing":
    case "destination-paused":
    case "destination-stopped":
    case "route-missing":
      return path("/deliveries", { route: subject, state: "waiting" });
    case "destination-slow":
      return path("/deliveries", { route: subject });
    case "dead-letters":
      return path("/deliveries", { route: subject, state: "dead" });
    case "quarantined":
      return path("/deliveries", { state: "quarantined" });
    case "unassigned":
      return path("/events", { disposition: kind });
    case "no-webhooks":
      return path("/events", { account: subject });
    default:
      return "/settings";
  }
}

function Act({
  attention: { kind, subject, action },
  start,
}: {
  attention: Attention;
  start(action: Action): void;
}) {
  const { can } = useSession();
  const obstacles = useObstacles();
  if (action === null || !can("replay")) return null;
  if (action === "release") {
    return (
      <button
        type="button"
        onClick={() => start(releaseAction(isReleasable(kind) ? kind : "quarantined"))}
      >
        Release
      </button>
    );
  }
  if (subject === null) return null;
  if (action === "resume") {
    const isAccount = kind === "account-stopped";
    return (
      <button type="button" onClick={() => start(resumeAction(subject, isAccount))}>
        Resume
      </button>
    );
  }
  const state = kind === "dead-letters" ? "dead" : "waiting";
  return (
    <button
      type="button"
      onClick={() => start(retryAction({ route: subject, state }, obstacles([subject])))}
    >
      Retry now
    </button>
  );
}
