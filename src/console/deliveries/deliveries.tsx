import { useState } from "preact/hooks";
import type { DeliveryGroup, RelayDelivery } from "../../client/relay-client.ts";
import { deliveryStates } from "../../model/states.ts";
import { relay } from "../app/api.ts";
import { isTime, path, type Rules, useData, useQuery } from "../app/data.ts";
import { useLive } from "../app/live.tsx";
import { useSession } from "../app/session.tsx";
import { canRetry } from "../events/deliveries-of.tsx";
import { EventOutcome, outcomeOf } from "../events/outcome.tsx";
import { type Action, ActionDialog } from "../parts/action.tsx";
import { noCause, retryAction, retryDeliveries, useObstacles } from "../parts/actions.ts";
import { Attentions } from "../parts/attentions.tsx";
import { ChoiceFilter, Filters, TextFilter, TimeFilter } from "../parts/filters.tsx";
import { count, none } from "../parts/format.ts";
import { Answer, Empty, Loading } from "../parts/notes.tsx";
import { Pages } from "../parts/pages.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Ago, Time } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";
import { Quarantined } from "./quarantined.tsx";

/** Quarantined events are never delivered, so this page is where an operator looks for them. */
const states = [...deliveryStates, "quarantined"] as const;
/** A seq, and in the list of deliveries a route. */
const isPlace = (text: string): boolean => /^\d{1,15}(\.[\w.-]+)?$/.test(text);
const rules: Rules = { state: states, from: isTime, to: isTime, before: isPlace };

/** What is stuck or dead, by destination and cause, and how to send it again. */
export function Deliveries() {
  const { query } = useQuery(rules);
  const [action, setAction] = useState<Action | null>(null);
  const { route, state, cause, errorCode, from, to, before } = query;
  const filter = { route, state, cause, errorCode, from, to };
  return (
    <>
      <Title>Deliveries</Title>
      <Stopped />
      <Filters rules={rules}>
        <ChoiceFilter label="State" name="state" choices={states} />
        {state !== "quarantined" && (
          <>
            <TextFilter label="Route" name="route" />
            <TextFilter label="Cause" name="cause" placeholder="503, timeout…" />
            <TextFilter label="Error code" name="errorCode" placeholder="131026" />
            <TimeFilter label="From" name="from" />
            <TimeFilter label="To" name="to" />
          </>
        )}
      </Filters>
      {state === "quarantined" ? (
        <Quarantined before={before} start={setAction} />
      ) : (
        <>
          {before === undefined && <Groups filter={filter} start={setAction} />}
          <List filter={filter} before={before} start={setAction} />
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
function Stopped() {
  const { overview, connection } = useLive();
  const { isLimited } = useSession();
  if (isLimited) return null;
  if (overview === null) return <Loading isLoading={connection !== "lost"} />;
  const stopped = overview.attention.filter(({ kind }) => kind === "destination-stopped");
  return <Attentions entries={stopped} label="Stopped destinations" />;
}

type Retryable = DeliveryGroup & { readonly state: "waiting" | "dead" };
const isRetryable = (group: DeliveryGroup): group is Retryable =>
  group.state === "waiting" || group.state === "dead";

function retryOf(
  { route, state, cause }: Retryable,
  { errorCode, from, to }: Filter,
  obstacles: ReturnType<typeof useObstacles>,
  ended: () => void,
): Action {
  return retryAction(
    { route, state, errorCode, from, to, cause: cause ?? noCause },
    obstacles([route]),
    ended,
  );
}

function Groups({ filter, start }: { filter: Filter } & Parts) {
  const { route, state, cause, ...ofEvent } = filter;
  const { can } = useSession();
  const obstacles = useObstacles();
  const all = useData(
    async () =>
      (
        await relay.groupDeliveries({
          route,
          ...ofEvent,
          ...(state === undefined ? {} : { state: state as DeliveryGroup["state"] }),
        })
      ).data,
    JSON.stringify([route, state, ofEvent]),
    5_000,
  );
  const groups =
    all.data?.filter((group) => cause === undefined || (group.cause ?? noCause) === cause) ?? [];
  const isFiltered = Object.values(filter).some((each) => each !== undefined);
  const columns: readonly Column<DeliveryGroup>[] = [
    { title: "Route", cell: (group) => <bdi>{group.route}</bdi> },
    { title: "State", cell: (group) => <EventOutcome event={outcomeOf("routed", [group])} /> },
    { title: "Deliveries", isNumber: true, cell: (group) => count(group.count) },
    { title: "Oldest", isNumber: true, cell: (group) => <Ago at={group.oldestAt} /> },
    { title: "Newest", isNumber: true, cell: (group) => <Ago at={group.newestAt} /> },
    ...(can("replay")
      ? [
          {
            title: "Action",
            cell: (group: DeliveryGroup) =>
              isRetryable(group) && (
                <button
                  type="button"
                  class="link"
                  onClick={() => start(retryOf(group, filter, obstacles, all.reload))}
                >
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
            onClick={() =>
              start(
                retryAction(
                  { ...filter, state },
                  obstacles(groups.map((group) => group.route)),
                  all.reload,
                ),
              )
            }
          >
            Retry all that match
          </button>
        )}
      </div>
      <Answer of={all}>
        {() =>
          groups.length === 0 ? (
            <p class="dim">
              {isFiltered ? "Nothing matches." : "Each delivery has reached its destination."}
            </p>
          ) : (
            <Table
              label="Groups of deliveries"
              rows={groups}
              columns={columns}
              keyOf={(group) => `${group.route} ${group.state} ${group.cause}`}
              hrefOf={(group) =>
                path("/deliveries", {
                  ...ofEvent,
                  route: group.route,
                  state: group.state,
                  cause: group.cause ?? noCause,
                })
              }
              keys={
                can("replay")
                  ? {
                      r: (group) =>
                        isRetryable(group) && start(retryOf(group, filter, obstacles, all.reload)),
                    }
                  : {}
              }
            />
          )
        }
      </Answer>
    </section>
  );
}

function List({
  filter: { state, ...filter },
  before,
  start,
}: { filter: Filter; before: string | undefined } & Parts) {
  const { can } = useSession();
  const obstacles = useObstacles();
  const list = useData(
    () =>
      relay.listDeliveries({
        ...filter,
        before,
        ...(state === undefined ? {} : { state: state as RelayDelivery["state"] }),
      }),
    JSON.stringify([state, filter, before]),
    before === undefined ? 5_000 : null,
  );
  const retryOne = (delivery: RelayDelivery): Action =>
    retryDeliveries(
      [delivery],
      `Send the delivery to ${delivery.route} again`,
      obstacles([delivery.route]),
      list.reload,
    );
  const columns: readonly Column<RelayDelivery>[] = [
    { title: "Event", cell: ({ event }) => event },
    {
      title: "State",
      cell: (delivery) => <EventOutcome event={outcomeOf("routed", [delivery])} />,
    },
    { title: "Route", cell: (delivery) => <bdi>{delivery.route}</bdi> },
    { title: "Reason", cell: ({ reason }) => reason !== null && <bdi class="dim">{reason}</bdi> },
    { title: "Attempts", isNumber: true, cell: ({ attempts }) => count(attempts) },
    {
      title: "Next attempt",
      isNumber: true,
      cell: ({ nextAt }) => (nextAt === null ? none : <Ago at={nextAt} past="due" />),
    },
    {
      title: "Settled",
      isNumber: true,
      cell: ({ settledAt }) => (settledAt === null ? none : <Time at={settledAt} />),
    },
    ...(can("replay")
      ? [
          {
            title: "Action",
            cell: (delivery: RelayDelivery) =>
              canRetry(delivery) && (
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
      <Answer of={list}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="No deliveries here">
              <p>
                A delivery is one event for one route. It appears here once a route matches an
                event.
              </p>
            </Empty>
          ) : (
            <Table
              label="Deliveries"
              rows={data}
              columns={columns}
              keyOf={({ id }) => id}
              hrefOf={({ event }) => `/events/${event}`}
              keys={
                can("replay")
                  ? { r: (delivery) => canRetry(delivery) && start(retryOne(delivery)) }
                  : {}
              }
            />
          )
        }
      </Answer>
      <Pages page="/deliveries" next={list.data?.next ?? null} />
    </section>
  );
}
