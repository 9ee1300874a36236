import { useRef, useState } from "preact/hooks";
import type { Attempt, RelayEventDetail, RelayStory } from "../../client/relay-client.ts";
import { attemptText, nextStepText } from "../../model/words.ts";
import { useKeys } from "../app/keyboard.ts";
import { useSession } from "../app/session.tsx";
import { type Action, ActionDialog } from "../parts/action.tsx";
import { retryDeliveries, useObstacles } from "../parts/actions.ts";
import { duration, plural } from "../parts/format.ts";
import { Code } from "../parts/notes.tsx";
import { Name } from "../parts/reveal.tsx";
import { Status } from "../parts/status.tsx";
import { Ago, Time } from "../parts/time.tsx";
import { EventOutcome, outcomeOf } from "./outcome.tsx";

/** As an event has it, or as a story has it. */
type ShownDelivery = RelayEventDetail["deliveries"][number] &
  Partial<Pick<RelayStory["events"][number]["deliveries"][number], "earlierAttempts">>;

/**
 * A proxied exchange ends with its first attempt, and a held delivery goes out after another one
 * only.
 */
export const canRetry = ({ route, state }: Pick<ShownDelivery, "route" | "state">): boolean =>
  !route.startsWith("proxy:") && state !== "held";

/** `j` and `k` move between the deliveries of a page; `r` retries the focused one. */
function useDeliveryKeys(retry: (id: string) => void): void {
  const move = (by: number) => {
    const all = [...document.querySelectorAll<HTMLElement>("[data-delivery]")];
    const index = all.indexOf(document.activeElement as HTMLElement);
    all[
      index < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(index + by, 0), all.length - 1)
    ]?.focus();
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    r: () => {
      const id = (document.activeElement as HTMLElement | null)?.dataset["delivery"];
      if (id !== undefined) retry(id);
    },
  });
}

/** The retry of one delivery among those of the page, by its button or by `r`. */
export function useRetry(deliveries: readonly ShownDelivery[], ended: () => void) {
  const { can } = useSession();
  const obstacles = useObstacles();
  const [action, setAction] = useState<Action | null>(null);
  const latest = useRef(deliveries);
  latest.current = deliveries;
  const retry = (id: string) => {
    const delivery = latest.current.find((each) => each.id === id);
    if (delivery === undefined || !can("replay") || !canRetry(delivery)) return;
    setAction(
      retryDeliveries(
        [delivery],
        `Send the delivery to ${delivery.route} again`,
        obstacles([delivery.route]),
        ended,
      ),
    );
  };
  useDeliveryKeys(retry);
  const dialog = <ActionDialog action={action} close={() => setAction(null)} />;
  return { retry: can("replay") ? retry : null, start: setAction, dialog };
}

export function DeliveriesOf({
  deliveries,
  retry,
}: {
  deliveries: readonly ShownDelivery[];
  retry: ((id: string) => void) | null;
}) {
  return (
    <ul class="deliveries">
      {deliveries.map((delivery) => {
        const {
          id,
          route,
          state,
          attempts,
          replays,
          reason,
          attemptHistory,
          next,
          earlierAttempts,
        } = delivery;
        const waits = nextStepText(next);
        return (
          <li
            key={id}
            data-delivery={id}
            // biome-ignore lint/a11y/noNoninteractiveTabindex: j and k focus it, and r retries it
            tabIndex={0}
            aria-label={`Delivery to ${route}: ${state}`}
          >
            <div class="page-head">
              <h3>
                <bdi>{route}</bdi>
              </h3>
              <EventOutcome event={outcomeOf("routed", [delivery])} />
              <span class="dim">
                {plural(attempts, "attempt")}
                {replays > 0 && `, ${plural(replays, "replay")}`}
                {waits !== null && ` · ${waits} `}
                {waits !== null && next.kind !== "due" && next.at !== null && (
                  <Ago at={next.at} past="now" />
                )}
              </span>
              {retry !== null && canRetry(delivery) && (
                <button type="button" class="link" onClick={() => retry(id)}>
                  {state === "delivered" ? "Send again" : "Retry"}
                </button>
              )}
            </div>
            {reason !== null && (
              <p class="problem">
                <bdi>{reason}</bdi>
              </p>
            )}
            {earlierAttempts !== undefined && earlierAttempts > 0 && (
              <p class="dim">{plural(earlierAttempts, "earlier attempt")} not shown.</p>
            )}
            <Attempts attempts={attemptHistory} />
            {earlierAttempts === undefined && (
              <p
                class="dim"
                title="Receivers get it as webhook-id, in queues and streams as deliveryId."
              >
                Delivery id <Name text={id} />
              </p>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** Responses up to this length need no click. */
const shortResponse = 120;

const isSuccess = (status: number | null): boolean =>
  status === null || (status >= 200 && status < 300);

/** As many as a story has. An outage of Redis makes hundreds. */
const mostShown = 20;

function Attempts({ attempts }: { attempts: readonly Attempt[] }) {
  const earlier = attempts.slice(0, -mostShown);
  return (
    <>
      {earlier.length > 0 && (
        <details>
          <summary class="dim">{plural(earlier.length, "earlier attempt")}</summary>
          <AttemptList attempts={earlier} />
        </details>
      )}
      {attempts.length > 0 && <AttemptList attempts={attempts.slice(-mostShown)} />}
    </>
  );
}

function AttemptList({ attempts }: { attempts: readonly Attempt[] }) {
  return (
    <ol class="attempts" aria-label="Attempts">
      {attempts.map(({ number, at, tookMs, status, error, response }) => (
        <li key={`${number} ${at}`}>
          <span class="dim">#{number}</span>
          <Status
            word={attemptText(status, error)}
            // Queues and streams accept without a status.
            tone={error === null && isSuccess(status) ? "ok" : "stopped"}
          />
          <Time at={at} />
          <span class="dim">took {duration(tookMs)}</span>
          {response !== null &&
            response !== "" &&
            (response.length <= shortResponse ? (
              <bdi class="mono">{response}</bdi>
            ) : (
              <Long text={response} />
            ))}
        </li>
      ))}
    </ol>
  );
}

function Long({ text }: { text: string }) {
  return (
    <details class="long">
      <summary>Response, {plural(text.length, "character")}</summary>
      <Code text={text} label="Response" />
    </details>
  );
}
