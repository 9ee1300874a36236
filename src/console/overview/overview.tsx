import { Link, useLocation } from "wouter-preact";
import type { RelayOverview } from "../../client/relay-client.ts";
import { relay } from "../app/api.ts";
import { path, useData } from "../app/data.ts";
import { useLive } from "../app/live.tsx";
import { Attentions } from "../parts/attentions.tsx";
import { Chart, Sparkline } from "../parts/chart.tsx";
import { Invalid, PeriodFilter, periodRules, usePeriod } from "../parts/filters.tsx";
import { FirstEventCommand } from "../parts/first-event.tsx";
import { count, duration, figure, none, percent } from "../parts/format.ts";
import { Empty, Problem } from "../parts/notes.tsx";
import { Status } from "../parts/status.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Ago, Time } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";

type Destination = RelayOverview["destinations"][number];
type Figures = RelayOverview["figures"];

/** What is broken, since when, and what to do. */
export function Overview() {
  const { overview } = useLive();
  // The stream sends the same; the first answer is faster by a request.
  const first = useData(() => relay.getOverview(), "overview");
  const current = overview ?? first.data;
  if (current === null) {
    return (
      <>
        <Title>Overview</Title>
        <Problem text={first.problem} retry={first.reload} />
        {first.isLoading && <p class="dim loading">Loading…</p>}
      </>
    );
  }
  return (
    <>
      <Title isHidden>Overview</Title>
      <Attentions
        entries={current.attention}
        label="Needs action"
        none={<AllGood since={current.goodSince} />}
      />
      <FigureRow figures={current.figures} />
      <Received />
      <Destinations destinations={current.destinations} />
    </>
  );
}

function AllGood({ since }: { since: string | null }) {
  const { connection } = useLive();
  if (connection === "lost") {
    return (
      <p class="dim" role="status">
        ○ Not known before the connection is back
      </p>
    );
  }
  return (
    <p class="all-good" role="status">
      ● All good
      {since !== null && (
        <>
          {" "}
          since <Time at={since} />
        </>
      )}
    </p>
  );
}

function FigureRow({ figures }: { figures: Figures }) {
  const { eventsPerSecond, ackP99Ms, oldestDeliverySeconds, deliveredShare, deadLetters } = figures;
  const oldest =
    oldestDeliverySeconds.value === null
      ? none
      : oldestDeliverySeconds.value === 0
        ? "0 s"
        : duration(oldestDeliverySeconds.value * 1000);
  const all = [
    {
      name: "events/s",
      value: figure(eventsPerSecond.value),
      values: eventsPerSecond.lastHour,
      href: "/events",
    },
    {
      name: "ack p99",
      value: duration(ackP99Ms.value),
      values: ackP99Ms.lastHour,
      href: "/settings",
    },
    {
      name: "oldest delivery",
      value: oldest,
      values: oldestDeliverySeconds.lastHour,
      href: path("/deliveries", { state: "waiting" }),
    },
    {
      name: "delivered",
      value: percent(deliveredShare.value),
      values: deliveredShare.lastHour,
      href: "/deliveries",
    },
    {
      name: "dead letters",
      value: count(deadLetters.value),
      values: deadLetters.lastHour,
      href: path("/deliveries", { state: "dead" }),
    },
  ];
  return (
    <section class="figures" aria-label="The last hour">
      {all.map(({ name, value, values, href }) => (
        <Link key={name} href={href}>
          <span class="name">{name}</span>
          <span class="value">{value}</span>
          <Sparkline values={values} label={`${name} in the last hour`} />
        </Link>
      ))}
    </section>
  );
}

/** From the bottom of the stack to its top. */
const dispositionColors: Readonly<Record<string, string>> = {
  routed: "--ok",
  filtered: "--quiet",
  ignored: "--dim",
  parked: "--open",
  unassigned: "--stopped",
  released: "--accent",
  quarantined: "--attention",
};

function Received() {
  const [, navigate] = useLocation();
  const { period, range } = usePeriod("1h");
  const { data, problem, reload } = useData(
    () => relay.getSeries({ name: "events", by: "disposition", ...range() }),
    period,
    period === "1h" ? 10_000 : 60_000,
  );
  const order = Object.keys(dispositionColors);
  const rowsFrom = (from: number, to: number | null, disposition?: string) =>
    path("/events", {
      disposition,
      from: new Date(from).toISOString(),
      to: to === null ? undefined : new Date(to).toISOString(),
    });
  const series = (data?.series ?? [])
    .filter(({ total }) => total !== null && total > 0)
    .toSorted((a, b) => order.indexOf(a.label) - order.indexOf(b.label));
  return (
    <section>
      <div class="page-head">
        <h2>Received by outcome</h2>
        <PeriodFilter otherwise="1h" />
      </div>
      <Invalid rules={periodRules} />
      <Problem text={problem} retry={reload} />
      {data !== null && series.length === 0 ? (
        <FirstEvent />
      ) : data === null ? (
        <div class="chart loading" />
      ) : (
        <Chart
          label={`Events received, by outcome: ${series.map(({ label, total }) => `${label} ${count(total)}`).join(", ")}`}
          from={Date.parse(data.from)}
          stepMs={data.step * 1000}
          series={series.map(({ label, values, total }) => ({
            label,
            values,
            total,
            color: dispositionColors[label] ?? "--dim",
            href: rowsFrom(Date.parse(data.from), null, label),
          }))}
          onPick={(from, to) => navigate(rowsFrom(from, to))}
        />
      )}
    </section>
  );
}

function FirstEvent() {
  return (
    <Empty title="No events in this period">
      <p>
        The relay counts every webhook that it accepts. To send one that is signed like the
        service's:
      </p>
      <FirstEventCommand />
    </Empty>
  );
}

const columns: readonly Column<Destination>[] = [
  { title: "Destination", cell: ({ route, to }) => <span title={to}>{route}</span> },
  {
    title: "State",
    cell: ({ state, reason, since }) => (
      <span class="short">
        <Status word={state} {...(reason === null ? {} : { title: reason })} />
        {since !== null && (
          <span class="dim">
            {" "}
            since <Time at={since} />
          </span>
        )}
      </span>
    ),
  },
  {
    title: "Waiting",
    isNumber: true,
    cell: ({ waiting, held, route }) => (
      <Rows value={waiting + held} route={route} state="waiting" />
    ),
  },
  {
    title: "In flight",
    isNumber: true,
    cell: ({ inFlight, route }) =>
      inFlight === null ? none : <Rows value={inFlight} route={route} state="waiting" />,
  },
  {
    title: "Dead",
    isNumber: true,
    cell: ({ dead, route }) => <Rows value={dead} route={route} state="dead" />,
  },
  { title: "Success 1 h", isNumber: true, cell: ({ successLastHour }) => percent(successLastHour) },
  {
    title: "Received to delivered, p50 / p99",
    isNumber: true,
    cell: ({ p50Ms, p99Ms }) =>
      p50Ms === null && p99Ms === null ? none : `${duration(p50Ms)} / ${duration(p99Ms)}`,
  },
  {
    title: "Next retry",
    isNumber: true,
    cell: ({ nextAt, waiting, state }) =>
      nextAt === null ? (
        waiting > 0 && state !== "stopped" ? (
          "due"
        ) : (
          none
        )
      ) : (
        <Ago at={nextAt} past="due" />
      ),
  },
];

function Rows({ value, route, state }: { value: number; route: string; state: string }) {
  return value === 0 ? (
    <span class="dim">0</span>
  ) : (
    <Link href={path("/deliveries", { route, state })}>{count(value)}</Link>
  );
}

function Destinations({ destinations }: { destinations: readonly Destination[] }) {
  if (destinations.length === 0) {
    return (
      <Empty title="No routes">
        <p>
          The relay stores and tracks every event, and forwards none. Add <code>routes</code> to the
          settings and reload them.
        </p>
      </Empty>
    );
  }
  return (
    <section>
      <Table
        label="Destinations"
        rows={destinations}
        columns={columns}
        keyOf={({ route }) => route}
        hrefOf={({ route }) => path("/deliveries", { route })}
      />
    </section>
  );
}
