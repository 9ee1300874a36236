import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import type { DeliveryGroup, RelayDelivery, RelayEvent } from "../../client/relay-client.ts";
import { relay } from "../app/api.ts";
import { path, useData, useQuery } from "../app/data.ts";
import { useLive } from "../app/live.tsx";
import { useSession } from "../app/session.tsx";
import { type Action, ActionDialog } from "../parts/action.tsx";
import { releaseAction, resumeAction, retryAction } from "../parts/actions.ts";
import { ChoiceFilter, Filters, TextFilter, TimeFilter } from "../parts/filters.tsx";
import { count, none } from "../parts/format.ts";
import { More, useList } from "../parts/list.tsx";
import { Empty, Loading, Problem } from "../parts/notes.tsx";
import { Status } from "../parts/status.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Ago, Time } from "../parts/time.tsx";

/** Quarantined events are never delivered, so this page is where an operator looks for them. */
const states = ["waiting", "held", "dead", "delivered", "quarantined"] as const;

/** What is stuck or dead, by destination and cause, and how to send it again. */
export function Deliveries() {
  const [query, setQuery] = useQuery();
  const [action, setAction] = useState<Action | null>(null);
  const { route, state, cause, errorCode, from, to } = query;
  const filter = { route, state, cause, errorCode, from, to };
  return (
    <>
      <h1>Deliveries</h1>
      <Stopped start={setAction} />
      <Filters>
        <ChoiceFilter label="State" value={state} choices={states} change={(next) => setQuery({ state: next })} />
        {state !== "quarantined" && (
          <>
            <TextFilter label="Route" value={route} change={(next) => setQuery({ route: next })} />
            <TextFilter label="Cause" value={cause} placeholder="503, timeout…" change={(next) => setQuery({ cause: next })} />
            <TextFilter label="Error code" value={errorCode} placeholder="131026" change={(next) => setQuery({ errorCode: next })} />
            <TimeFilter label="From" value={from} change={(next) => setQuery({ from: next })} />
            <TimeFilter label="To" value={to} change={(next) => setQuery({ to: next })} />
          </>
        )}
      </Filters>
      {state === "quarantined" ? (
        <Quarantined start={setAction} />
      ) : (
        <>
          <Groups filter={filter} start={setAction} />
          <List filter={filter} start={setAction} />
        </>
      )}
      <ActionDialog action={action} close={() => setAction(null)} />
    </>
  );
}

interface Filter {
  readonly route: string | undefined;
  readonly state: string | undefined;
  readonly cause: string | undefined;
  readonly errorCode: string | undefined;
  readonly from: string | undefined;
  readonly to: string | undefined;
}

interface Parts {
  start(action: Action): void;
}

/** Destinations to which nothing goes out. */
function Stopped({ start }: Parts) {
  const { overview } = useLive();
  const { can } = useSession();
  const stopped = overview?.destinations.filter(({ state }) => state === "stopped") ?? [];
  if (stopped.length === 0) return null;
  return (
    <ul class="attentions" aria-label="Stopped destinations">
      {stopped.map(({ route, reason, since }) => (
        <li key={route}>
          <span>
            <Status word={`${route} is stopped`} tone="stopped" /> {reason !== null && <bdi>{reason}</bdi>}
          </span>
          <span class="dim">
            <Ago at={since} />
          </span>
          {can("replay") && (
            <span class="act">
              <button type="button" onClick={() => start(resumeAction(route, false))}>
                Resume
              </button>
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

type Retryable = DeliveryGroup & { readonly state: "waiting" | "dead" };
const isRetryable = (group: DeliveryGroup): group is Retryable => group.state === "waiting" || group.state === "dead";

function retryOf(
  { route, state, cause }: Retryable,
  { errorCode, from, to }: Filter,
  failing: (routes: readonly string[]) => string[],
  ended: () => void,
): Action {
  return retryAction({ route, state, errorCode, from, to, ...(cause === null ? {} : { cause }) }, failing([route]), ended);
}

/** Tells which of these routes' destinations fail. Stopped and paused ones are not among them: those are resumed on purpose. */
function useFailing(): (routes: readonly string[]) => string[] {
  const { overview } = useLive();
  const failing = overview?.attention.filter(({ kind }) => kind === "destination-failing").map(({ subject }) => subject) ?? [];
  return (routes) => routes.filter((route, index) => failing.includes(route) && routes.indexOf(route) === index);
}

function Groups({ filter, start }: { filter: Filter } & Parts) {
  const { route, state, cause, ...ofEvent } = filter;
  const { can } = useSession();
  const failing = useFailing();
  const { data, problem, isLoading, reload } = useData(
    () => relay.deliveryGroups({ route, ...ofEvent, ...(state === undefined ? {} : { state: state as DeliveryGroup["state"] }) }),
    JSON.stringify([route, state, ofEvent]),
    5_000,
  );
  const groups = data?.filter((group) => cause === undefined || group.cause === cause) ?? [];
  const columns: readonly Column<DeliveryGroup>[] = [
    { title: "Route", cell: (group) => group.route },
    { title: "State", cell: (group) => <Status word={group.state} /> },
    { title: "Cause", cell: (group) => group.cause ?? <span class="dim">{none}</span> },
    { title: "Deliveries", isNumber: true, cell: (group) => count(group.count) },
    { title: "Oldest", isNumber: true, isWide: true, cell: (group) => <Ago at={group.oldestAt} /> },
    { title: "Newest", isNumber: true, isWide: true, cell: (group) => <Ago at={group.newestAt} /> },
    ...(can("replay")
      ? [
          {
            title: "Action",
            cell: (group: DeliveryGroup) =>
              isRetryable(group) && (
                <button type="button" class="link" onClick={() => start(retryOf(group, filter, failing, reload))}>
                  Retry
                </button>
              ),
          },
        ]
      : []),
  ];
  return (
    <section>
      <div class="page-head">
        <h2>By destination and cause</h2>
        {can("replay") && (state === "waiting" || state === "dead") && groups.length > 0 && (
          <button
            type="button"
            onClick={() => start(retryAction({ ...filter, state }, failing(groups.map((group) => group.route)), reload))}
          >
            Retry all that match
          </button>
        )}
      </div>
      <Problem text={problem} retry={reload} />
      <Loading isLoading={isLoading && data === null} />
      {data !== null && groups.length === 0 ? (
        <p class="dim">Nothing matches.</p>
      ) : (
        <Table
          label="Groups of deliveries"
          rows={groups}
          columns={columns}
          keyOf={(group) => `${group.route} ${group.state} ${group.cause}`}
          hrefOf={(group) => path("/deliveries", { ...ofEvent, route: group.route, state: group.state, cause: group.cause })}
          keys={can("replay") ? { r: (group) => isRetryable(group) && start(retryOf(group, filter, failing, reload)) } : {}}
        />
      )}
    </section>
  );
}

function List({ filter: { state, ...filter }, start }: { filter: Filter } & Parts) {
  const { can } = useSession();
  const failing = useFailing();
  const list = useList<RelayDelivery, string>(
    (before) => relay.deliveryPage({ ...filter, before, ...(state === undefined ? {} : { state: state as RelayDelivery["state"] }) }),
    JSON.stringify([state, filter]),
  );
  const retryOne = ({ id, route }: RelayDelivery): Action => ({
    title: "Retry one delivery",
    text: <bdi>{id}</bdi>,
    verb: "Retry",
    run: async () => {
      for (const each of failing([route])) await relay.resume(each);
      const { state: now, stopped } = await relay.retry(id);
      return stopped === null ? `It is ${now}.` : `It is ${now}; its destination is stopped: ${stopped}`;
    },
    ended: list.reload,
  });
  const columns: readonly Column<RelayDelivery>[] = [
    { title: "Event", cell: ({ event }) => event },
    { title: "Route", cell: (delivery) => delivery.route },
    {
      title: "State",
      cell: (delivery) => <Status word={delivery.state} {...(delivery.reason === null ? {} : { title: delivery.reason })} />,
    },
    { title: "Attempts", isNumber: true, isWide: true, cell: ({ attempts }) => count(attempts) },
    { title: "Next attempt", isNumber: true, isWide: true, cell: ({ nextAt }) => <Ago at={nextAt} past="due" /> },
    { title: "Settled", isNumber: true, isWide: true, cell: ({ settledAt }) => <Time at={settledAt} /> },
    { title: "Reason", isWide: true, cell: ({ reason, cause }) => <bdi class="dim">{reason ?? cause}</bdi> },
    ...(can("replay")
      ? [
          {
            title: "Action",
            cell: (delivery: RelayDelivery) => (
              <button type="button" class="link" onClick={() => start(retryOne(delivery))}>
                {delivery.state === "delivered" ? "Send again" : "Retry"}
              </button>
            ),
          },
        ]
      : []),
  ];
  return (
    <section>
      <h2>Deliveries, newest first</h2>
      <Problem text={list.problem} retry={list.reload} />
      <Loading isLoading={list.isLoading && list.rows.length === 0} />
      {!list.isLoading && list.rows.length === 0 ? (
        <Empty title="No deliveries here">
          <p>A delivery is one event for one route. It appears here once a route matches an event.</p>
        </Empty>
      ) : (
        <Table
          label="Deliveries"
          rows={list.rows}
          columns={columns}
          keyOf={({ id }) => id}
          hrefOf={({ event }) => `/events/${event}`}
          keys={can("replay") ? { r: (delivery) => start(retryOne(delivery)) } : {}}
        />
      )}
      <More list={list} />
    </section>
  );
}

/** Signed correctly, but not valid events: the bytes are kept until an operator releases or leaves them. */
function Quarantined({ start }: Parts) {
  const { can } = useSession();
  const list = useList<RelayEvent, number>((before) => relay.eventPage({ disposition: "quarantined", before }), "quarantined");
  const columns: readonly Column<RelayEvent>[] = [
    { title: "Seq", cell: ({ seq }) => seq },
    { title: "Source", cell: ({ source }) => source },
    { title: "Received", cell: ({ receivedAt }) => <Time at={receivedAt} /> },
    { title: "Why", cell: ({ fault }) => <bdi>{fault}</bdi> },
    ...(can("replay")
      ? [
          {
            title: "Action",
            cell: ({ seq }: RelayEvent) => (
              <button type="button" class="link" onClick={() => start(releaseAction({ event: seq }, list.reload))}>
                Release
              </button>
            ),
          },
        ]
      : []),
  ];
  return (
    <section>
      <div class="page-head">
        <h2>Quarantined events</h2>
        {can("replay") && list.rows.length > 0 && (
          <button type="button" onClick={() => start(releaseAction({}, list.reload))}>
            Release all
          </button>
        )}
      </div>
      <Problem text={list.problem} retry={list.reload} />
      <Loading isLoading={list.isLoading && list.rows.length === 0} />
      {!list.isLoading && list.rows.length === 0 ? (
        <Empty title="Nothing is in quarantine">
          <p>The relay keeps webhooks here whose signature is right and whose body is not a valid event.</p>
          <p>
            <Link href="/deliveries">All deliveries</Link>
          </p>
        </Empty>
      ) : (
        <Table
          label="Quarantined events"
          rows={list.rows}
          columns={columns}
          keyOf={({ seq }) => seq}
          hrefOf={({ seq }) => `/events/${seq}`}
        />
      )}
      <More list={list} />
    </section>
  );
}
