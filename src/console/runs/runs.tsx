import { Link, Route, Switch } from "wouter-preact";
import type { RelayRun, RelayStory } from "../../client/relay-client.ts";
import { runStatuses, stageOf, statusesOf } from "../../model/statuses.ts";
import { relay } from "../app/api.ts";
import { isSeq, path, type Rules, useData, usePathName, useQuery } from "../app/data.ts";
import { useRetry } from "../events/deliveries-of.tsx";
import { EventStories } from "../events/story.tsx";
import { Fact } from "../messages/message.tsx";
import { stepsOf } from "../messages/steps.ts";
import { Timeline } from "../messages/timeline.tsx";
import { useStories } from "../messages/use-stories.ts";
import { ChipFilter, Filters, TextFilter } from "../parts/filters.tsx";
import { none } from "../parts/format.ts";
import { Code, Empty, Loading, Missing, Problem } from "../parts/notes.tsx";
import { Pages } from "../parts/pages.tsx";
import { Name, RevealButton, useReveal } from "../parts/reveal.tsx";
import { Status } from "../parts/status.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Time } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";

function NamedRun() {
  const name = usePathName();
  return <Run key={name} name={name} />;
}

export function Runs() {
  return (
    <Switch>
      <Route path="/runs/:name">
        <NamedRun />
      </Route>
      <Route>
        <RunList />
      </Route>
    </Switch>
  );
}

const statuses = statusesOf(runStatuses);
const rules: Rules = { status: statuses, before: isSeq };

const columns: readonly Column<RelayRun>[] = [
  { title: "Run", cell: ({ runId }) => <Name text={runId} /> },
  { title: "Status", cell: ({ status }) => (status === null ? <span class="dim">{none}</span> : <Status word={status} />) },
  { title: "Reference", cell: ({ reference }) => reference !== null && <Name text={reference} /> },
  { title: "Error", cell: ({ error }) => error !== null && <Name text={error} /> },
  { title: "Account", cell: ({ account }) => account },
  { title: "Changed", isNumber: true, cell: ({ updatedAt }) => <Time at={updatedAt} /> },
];

function RunList() {
  const { query } = useQuery(rules);
  const reveal = useReveal();
  const { q, status, account, before } = query;
  const filter = { q, status, account };
  const { data, problem, isLoading, reload } = useData(
    () => relay.listRuns({ ...filter, ...reveal.asked, before: before === undefined ? undefined : Number(before) }),
    JSON.stringify([filter, before, reveal.isRevealed]),
    before === undefined && !reveal.isRevealed ? 5_000 : null,
    reveal.isRevealed ? JSON.stringify([filter, before, false]) : null,
  );
  const isFiltered = Object.values(filter).some((value) => value !== undefined) || before !== undefined;
  return (
    <>
      <div class="page-head">
        <Title>Runs</Title>
        <RevealButton reveal={reveal} />
      </div>
      <Filters rules={rules}>
        <TextFilter label="Search" name="q" placeholder="run id, reference…" />
        <TextFilter label="Account" name="account" />
        <ChipFilter label="Status" name="status" choices={statuses} />
      </Filters>
      <Problem text={problem} retry={reload} />
      <Loading isLoading={isLoading && data === null} />
      {data !== null &&
        (data.data.length > 0 ? (
          <Table
            label="Runs"
            rows={data.data}
            columns={columns}
            keyOf={({ account, runId }) => `${account} ${runId}`}
            hrefOf={({ account, runId }) => path(`/runs/${encodeURIComponent(runId)}`, { account })}
          />
        ) : isFiltered ? (
          <Empty title="No run matches">
            <p>Search finds a run id, a masked id from a log line, and the beginning of a reference.</p>
          </Empty>
        ) : (
          <Empty title="No runs yet">
            <p>A run of an automation appears here when you start it through the relay, or when its result arrives. To send a result:</p>
            <Code text="wamid-relay trigger automation.completed" label="Command" />
          </Empty>
        ))}
      <Pages page="/runs" next={data?.next ?? null} />
    </>
  );
}

function Run({ name }: { name: string }) {
  const { account } = useQuery().query;
  const reveal = useReveal();
  const { stories, problem, isMissing, isLoading, more, reload } = useStories(name, { as: "run", account, ...reveal.asked });
  return (
    <>
      <div class="page-head">
        <Title>
          Run <Name text={stories?.[0]?.run?.runId ?? name} />
        </Title>
        <RevealButton reveal={reveal} />
      </div>
      <Problem text={problem} retry={reload} />
      {isMissing && (
        <Missing what="run" list="/runs">
          The relay knows a run by its id, its reference or a masked id from a log line. Retention may have removed it.
        </Missing>
      )}
      <Loading isLoading={isLoading && stories === null} />
      {stories !== null && stories.length > 1 ? (
        <ul class="stories" aria-label="Several runs have this name">
          {stories.map(
            ({ run }) =>
              run !== null && (
                <li key={`${run.account} ${run.runId}`} class="page-head">
                  <Link href={path(`/runs/${encodeURIComponent(run.runId)}`, { account: run.account })}>
                    <Name text={run.runId} />
                  </Link>
                  {run.status !== null && <Status word={run.status} />}
                  <span class="dim">{run.account}</span>
                </li>
              ),
          )}
        </ul>
      ) : (
        stories?.[0] !== undefined && <RunStory story={stories[0]} more={more} reload={reload} />
      )}
    </>
  );
}

function RunStory({ story: { run, events }, more, reload }: { story: RelayStory; more: (() => void) | null; reload(): void }) {
  const { retry, dialog } = useRetry(
    events.flatMap(({ deliveries }) => deliveries),
    reload,
  );
  return (
    <>
      {run !== null && (
        <>
          <section>
            <h2>Timeline</h2>
            <Timeline
              steps={stepsOf(run.times, events)}
              isOpen={stageOf(runStatuses, run.status) === "open"}
              failure={run.error === null ? null : <bdi>{run.error}</bdi>}
            />
          </section>
          <section>
            <h2>Facts</h2>
            <dl class="facts">
              <Fact name="Run" text={run.runId} />
              <Fact name="Reference" text={run.reference} />
              <Fact name="Account" text={run.account} />
              <Fact name="Metadata" text={run.metadata === null ? null : JSON.stringify(run.metadata)} />
              <dt>Registered</dt>
              <dd>
                {run.registeredAt === null ? (
                  <span class="dim">no; the relay knows it from events only</span>
                ) : (
                  <Time at={run.registeredAt} />
                )}
              </dd>
            </dl>
          </section>
        </>
      )}
      <section>
        <h2>Events and deliveries</h2>
        {events.length === 0 && <p class="dim">The relay has received no event about this run.</p>}
        <EventStories events={events} retry={retry} />
        {more !== null && (
          <button type="button" class="more" onClick={more}>
            Show later events
          </button>
        )}
      </section>
      {dialog}
    </>
  );
}
