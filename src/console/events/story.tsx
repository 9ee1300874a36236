import { Link } from "wouter-preact";
import type { RelayStory } from "../../client/relay-client.ts";
import { verdictText } from "../../model/words.ts";
import { Name } from "../parts/reveal.tsx";
import { Status } from "../parts/status.tsx";
import { Time } from "../parts/time.tsx";
import { DeliveriesOf } from "./deliveries-of.tsx";
import { EventOutcome, outcomeOf } from "./outcome.tsx";
import { hydrationText, originText } from "./words.ts";

/** The events of a message or run, each with its routes and deliveries. */
export function EventStories({
  events,
  retry,
}: {
  events: RelayStory["events"];
  retry: ((id: string) => void) | null;
}) {
  return (
    <ol class="stories">
      {events.map((event) => {
        const {
          seq,
          status,
          errorCode,
          disposition,
          receivedAt,
          origin,
          routes,
          deliveries,
          hydration,
          duplicates,
          transition,
        } = event;
        const skips = routes.filter(({ verdict }) => verdict !== "deliver");
        return (
          <li key={seq}>
            <div class="page-head">
              <h3>
                <Link href={`/events/${seq}`}>Event {seq}</Link>
              </h3>
              <EventOutcome event={outcomeOf(disposition, deliveries)} />
              {status !== null && (
                <span>
                  <span class="dim">status</span> <Status word={status} />
                </span>
              )}
              {errorCode !== null && <Name text={errorCode} />}
              <Time at={receivedAt} />
              <span class="dim">
                {originText(origin)}
                {status !== null && !transition && " · changed no status"}
                {duplicates > 0 && ` · received ${duplicates + 1} times`}
              </span>
            </div>
            {hydration !== null && <p>{hydrationText(hydration)}</p>}
            <DeliveriesOf deliveries={deliveries} retry={retry} />
            {skips.length > 0 && (
              <details>
                <summary class="dim">Other routes: {skips.length}</summary>
                <ul>
                  {skips.map((each) => (
                    <li key={each.route}>
                      <bdi>{each.route}</bdi> <bdi class="dim">{verdictText(each, hydration)}</bdi>
                    </li>
                  ))}
                </ul>
              </details>
            )}
          </li>
        );
      })}
    </ol>
  );
}
