import type { ComponentChildren } from "preact";
import { Link } from "wouter-preact";
import type { RelayEventDetail } from "../../client/relay-client.ts";
import { meaningOf } from "../../model/failure-codes.ts";
import { requestText, verdictText } from "../../model/words.ts";
import { relay } from "../app/api.ts";
import { path, useQuery } from "../app/data.ts";
import { Fact } from "../messages/story-page.tsx";
import { isReleasable, releaseAction, retryDeliveries, useObstacles } from "../parts/actions.ts";
import { bytes, count, plural } from "../parts/format.ts";
import { Answer, Missing } from "../parts/notes.tsx";
import { Name, RevealButton, useMasked } from "../parts/reveal.tsx";
import { Status } from "../parts/status.tsx";
import { Time } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";
import { Body } from "./body.tsx";
import { canRetry, DeliveriesOf, useRetry } from "./deliveries-of.tsx";
import { EventOutcome, outcomeOf } from "./outcome.tsx";
import { dispositionText, hydrationText, originText } from "./words.ts";

/** Everything about one event, by its seq or id. */
export function Event({ name }: { name: string }) {
  const { account } = useQuery().query;
  const { answer: event, reveal } = useMasked(
    (mask) => relay.getEvent({ id: name, account, ...mask }),
    [name, account],
  );
  const { data, reload } = event;
  const obstacles = useObstacles();
  const { retry, start, dialog } = useRetry(data?.deliveries ?? [], reload);
  const releasable = data !== null && isReleasable(data.disposition) ? data.disposition : null;
  const again = data?.deliveries.filter(canRetry) ?? [];
  return (
    <>
      <div class="page-head">
        <Title>Event {data?.seq ?? <Name text={name} />}</Title>
        {data !== null && <EventOutcome event={outcomeOf(data.disposition, data.deliveries)} />}
        <span class="buttons">
          {data !== null && retry !== null && again.length > 0 && (
            <button
              type="button"
              onClick={() =>
                start(
                  retryDeliveries(
                    again,
                    `Replay ${plural(again.length, "delivery", "deliveries")} of event ${data.seq}`,
                    obstacles(again.map(({ route }) => route)),
                    reload,
                  ),
                )
              }
            >
              Replay deliveries
            </button>
          )}
          {data !== null && retry !== null && releasable !== null && (
            <button
              type="button"
              onClick={() => start(releaseAction(releasable, { event: data.seq }, reload))}
            >
              Release
            </button>
          )}
          <RevealButton reveal={reveal} />
        </span>
      </div>
      {event.isMissing && (
        <Missing what="event" list="/events">
          The relay knows an event by its seq, its id or a masked id from a log line. Retention may
          have removed it.
        </Missing>
      )}
      <Answer of={event}>
        {(data) => (
          <>
            {data.deliveries.length > 0 && (
              <section>
                <h2>Deliveries</h2>
                <DeliveriesOf deliveries={data.deliveries} retry={retry} />
              </section>
            )}
            <Routing event={data} />
            <Facts event={data} />
            <Body event={data} isRevealed={reveal.isRevealed} />
            <Headers headers={data.headers} />
          </>
        )}
      </Answer>
      {dialog}
    </>
  );
}

function Routing({ event }: { event: RelayEventDetail }) {
  const { disposition, parkedUntil, fault, releasedAs, releasedFrom, hydration, routes } = event;
  return (
    <section>
      <h2>Routing</h2>
      <p>
        <Status word={disposition} /> <span class="dim">{dispositionText(disposition)}</span>
        {parkedUntil !== null && (
          <>
            {" "}
            Parking ends at <Time at={parkedUntil} />.
          </>
        )}
        {releasedAs !== null && (
          <>
            {" "}
            See <Link href={`/events/${releasedAs}`}>event {releasedAs}</Link>.
          </>
        )}
        {releasedFrom !== null && (
          <>
            {" "}
            It was released from quarantine:{" "}
            <Link href={`/events/${releasedFrom}`}>event {releasedFrom}</Link>.
          </>
        )}
      </p>
      {fault !== null && (
        <p class="problem">
          <bdi>{fault}</bdi>
        </p>
      )}
      {hydration !== null && <Hydration hydration={hydration} />}
      {routes.length > 0 && (
        <ul class="routes" aria-label="Routes">
          {routes.map((each) => (
            <li key={each.route}>
              <Status
                word={each.route}
                tone={
                  each.verdict === "deliver" ? "ok" : each.verdict === "park" ? "open" : "quiet"
                }
              />
              <bdi class="dim">{verdictText(each, hydration)}</bdi>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Hydration({ hydration }: { hydration: NonNullable<RelayEventDetail["hydration"]> }) {
  const { found, foundCount, unknown } = hydration;
  return (
    <>
      <p>
        {hydrationText(hydration)}
        {unknown !== null &&
          unknown > 0 &&
          ` ${plural(unknown, "candidate was", "candidates were")} not polled.`}
      </p>
      {found.length > 0 && (
        <ul class="routes" aria-label="Changes found">
          {found.map(({ seq, wamid, status }) => (
            <li key={seq}>
              <Link href={`/events/${seq}`}>Event {seq}</Link>
              {status !== null && <Status word={status} />}
              {wamid !== null && <Name text={wamid} />}
            </li>
          ))}
          {foundCount > found.length && (
            <li class="dim">and {plural(foundCount - found.length, "more change")}</li>
          )}
        </ul>
      )}
    </>
  );
}

function Facts({ event }: { event: RelayEventDetail }) {
  const {
    id,
    account,
    source,
    origin,
    receivedAt,
    createdAt,
    secret,
    subject,
    errorCode,
    duplicates,
    conflicts,
    size,
    request,
  } = event;
  return (
    <section>
      <h2>Facts</h2>
      <dl class="facts">
        <Fact name="Id" text={id} />
        <Fact name="Kind" text={event.event} />
        {subject !== null && (
          <FactOf name={subject.type === "message" ? "Message" : "Run"}>
            <Link href={path(`/${subject.type}s/${encodeURIComponent(subject.key)}`, { account })}>
              <bdi class="mono">{subject.key}</bdi>
            </Link>
          </FactOf>
        )}
        <FactOf name="Status">{movement(event)}</FactOf>
        {errorCode !== null && (
          <FactOf name="Error code">
            <bdi class="mono">{errorCode}</bdi> {meaningOf(errorCode)}
          </FactOf>
        )}
        <FactOf name="Received">
          <Time at={receivedAt} /> by source <bdi>{source}</bdi>
          {account !== "" && (
            <>
              , account <bdi>{account}</bdi>
            </>
          )}
          , origin {originText(origin)}
        </FactOf>
        {createdAt !== null && (
          <FactOf name="Created">
            <Time at={createdAt} />
          </FactOf>
        )}
        <FactOf name="Verified by">
          {secret === null ? (
            <span class="dim">no secret; the relay made this event</span>
          ) : (
            <>
              the secret with the fingerprint <Link href="/settings">{secret}</Link>
            </>
          )}
        </FactOf>
        <FactOf name="Duplicates">
          {count(duplicates)}
          {conflicts > 0 && `, ${count(conflicts)} of them with other bytes`}
        </FactOf>
        <FactOf name="Size">{bytes(size)}</FactOf>
        {request !== null && (
          <FactOf name="Request">
            <Link href={path("/events", { request: request.digest })}>{requestText(request)}</Link>{" "}
            of {bytes(request.bytes)}
          </FactOf>
        )}
      </dl>
    </section>
  );
}

function FactOf({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}

function movement({ status, previousStatus, transition }: RelayEventDetail): ComponentChildren {
  if (status === null)
    return previousStatus === null ? (
      <span class="dim">none</span>
    ) : (
      <Status word={previousStatus} />
    );
  if (!transition && previousStatus === null) return <Status word={status} />;
  if (!transition) {
    return (
      <>
        <Status word={status} /> <span class="dim">reported; the status stayed</span>{" "}
        <bdi>{previousStatus}</bdi>
      </>
    );
  }
  return (
    <>
      {previousStatus !== null && (
        <>
          <bdi class="dim">{previousStatus}</bdi> →{" "}
        </>
      )}
      <Status word={status} />
    </>
  );
}

function Headers({ headers }: { headers: RelayEventDetail["headers"] }) {
  const names = Object.keys(headers);
  return (
    <section>
      <h2>Headers</h2>
      {names.length === 0 ? (
        <p class="dim">None stored: the relay keeps the headers that the signature covers.</p>
      ) : (
        <dl class="facts">
          {names.map((name) => (
            <Fact key={name} name={name} text={headers[name] ?? null} />
          ))}
        </dl>
      )}
    </section>
  );
}
