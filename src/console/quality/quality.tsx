import { Link } from "wouter-preact";
import type { RelayQuality, RelaySeries } from "../../client/relay-client.ts";
import { relay } from "../app/api.ts";
import { path, useData, useQuery } from "../app/data.ts";
import { Chart, type ChartSeries } from "../parts/chart.tsx";
import { download } from "../parts/download.ts";
import { Filters, PeriodFilter, periodRules, TextFilter, usePeriod } from "../parts/filters.tsx";
import { count, duration, percent } from "../parts/format.ts";
import { Answer, Empty } from "../parts/notes.tsx";
import { Name } from "../parts/reveal.tsx";
import { toneOf } from "../parts/status.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Title } from "../parts/title.tsx";
import { csvOf, otherCodes, topSeries } from "./numbers.ts";

const refreshMs = 60_000;
const codeColors = ["--stopped", "--attention", "--accent", "--open", "--ok", "--quiet"];

/** How many messages arrive, what fails, and why. */
export function Quality() {
  const { account, route, reference } = useQuery().query;
  const { period, range } = usePeriod("24h");
  const key = JSON.stringify([period, account, route, reference]);
  const quality = useData(
    () => relay.getQuality({ from: range().from, account, route, reference }),
    key,
    refreshMs,
  );
  const failures = useData(
    () => relay.getSeries({ name: "failures", by: "code", ...range() }),
    period,
    refreshMs,
  );
  const of = { from: range().from.toISOString(), account };
  const hasChart = account === undefined && route === undefined && reference === undefined;

  return (
    <>
      <div class="page-head">
        <Title>Quality</Title>
        <PeriodFilter otherwise="24h" />
      </div>
      <Filters rules={periodRules}>
        <TextFilter label="Account" name="account" />
        <TextFilter label="Route" name="route" />
        <TextFilter label="Reference begins with" name="reference" />
      </Filters>
      <Answer of={quality}>
        {(data) =>
          data.sent === 0 ? (
            <Empty title="No messages in this period">
              <p>The relay counts each message whose statuses arrive.</p>
            </Empty>
          ) : (
            <>
              <Funnel quality={data} of={of} />
              {hasChart && (
                <Answer of={failures}>{(series) => <Failures series={series} />}</Answer>
              )}
              <Codes quality={data} of={of} />
              <p>
                <button
                  type="button"
                  onClick={() => download(`quality-${period}.csv`, "text/csv", csvOf(data))}
                >
                  Export CSV
                </button>
              </p>
            </>
          )
        }
      </Answer>
    </>
  );
}

/** `of`: the period and account, for links to their messages. */
interface Figures {
  readonly quality: RelayQuality;
  readonly of: { readonly from: string; readonly account: string | undefined };
}

function Funnel({ quality, of }: Figures) {
  const { sent, delivered, read, failed, pending, toDelivered, toRead } = quality;
  const share = (value: number) => percent(sent === 0 ? null : value / sent);
  const steps = [
    {
      status: "sent",
      value: sent,
      note: pending === 0 ? "" : `${count(pending)} of them neither delivered nor failed yet`,
    },
    {
      status: "delivered",
      value: delivered,
      note: `${share(delivered)} of sent${within(toDelivered)}`,
    },
    {
      status: "read",
      value: read,
      note: `${share(read)} of sent${within(toRead)}`,
    },
    { status: "failed", value: failed, note: `${share(failed)} of sent` },
  ];
  const most = Math.max(...steps.map(({ value }) => value), 1);
  return (
    <section>
      <h2>Sent, delivered, read</h2>
      <ol class="funnel">
        {steps.map(({ status, value, note }) => (
          <li key={status}>
            <Link href={path("/messages", { status, ...of })}>{status}</Link>
            <Link href={path("/messages", { status, ...of })} class="number row-link">
              {count(value)}
            </Link>
            <svg
              class={`bar ${toneOf(status)}`}
              viewBox="0 0 100 8"
              preserveAspectRatio="none"
              aria-hidden="true"
            >
              <rect width={(value / most) * 100} height="8" />
            </svg>
            <span class="dim">{note}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

function within({ p50, p90 }: RelayQuality["toRead"]): string {
  if (p50 === null || p90 === null) return "";
  return ` · half within ${duration(p50 * 1000)}, 90 % within ${duration(p90 * 1000)}`;
}

function Failures({ series }: { series: RelaySeries }) {
  const shown: ChartSeries[] = topSeries(series.series, codeColors.length).map(
    ({ label, values, total }, index) => ({
      label,
      values,
      total,
      href: label === otherCodes ? null : path("/events", { errorCode: label, from: series.from }),
      color: codeColors[index] ?? "--quiet",
    }),
  );
  if (shown.length === 0) return null;
  return (
    <section>
      <h2>Failures by error code</h2>
      <Chart
        label={`Failures by error code: ${shown.map(({ label }) => label).join(", ")}`}
        from={Date.parse(series.from)}
        stepMs={series.step * 1000}
        series={shown}
      />
    </section>
  );
}

const columns: readonly Column<RelayQuality["errors"][number]>[] = [
  { title: "Error code", cell: ({ code }) => <Name text={code} /> },
  { title: "Failures", isNumber: true, cell: (error) => count(error.count) },
  {
    title: "Meaning",
    cell: ({ meaning }) =>
      meaning ?? <span class="dim">The relay has no explanation of this code.</span>,
  },
];

function Codes({ quality: { errors }, of }: Figures) {
  if (errors.length === 0) return <p class="all-good">● Nothing failed in this period</p>;
  return (
    <section>
      <h2>Why messages failed</h2>
      <Table
        label="Failures by error code"
        rows={errors}
        columns={columns}
        keyOf={({ code }) => code}
        hrefOf={({ code }) => path("/messages", { status: "failed", errorCode: code, ...of })}
      />
    </section>
  );
}
