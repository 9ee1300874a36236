import type { RelayRun, RelayStory } from "../../client/relay-client.ts";
import { runStatuses, stageOf, statusesOf } from "../../model/statuses.ts";
import { relay } from "../app/api.ts";
import { isSeq, path, type Rules, usePathName, useQuery } from "../app/data.ts";
import { stepsOf } from "../messages/steps.ts";
import { CommonFacts, Fact, Registered, StoryPage, type Subject } from "../messages/story-page.tsx";
import { useAccountColumn } from "../parts/accounts.ts";
import { ChipFilter, Filters, TextFilter } from "../parts/filters.tsx";
import { none } from "../parts/format.ts";
import { Answer, Code, Empty } from "../parts/notes.tsx";
import { Pages } from "../parts/pages.tsx";
import { Name, RevealButton, useMasked } from "../parts/reveal.tsx";
import { Status } from "../parts/status.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Time } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";

const names = "its id, its reference or a masked id from a log line";

export function Runs() {
  const name = usePathName();
  return name === null ? (
    <RunList />
  ) : (
    <StoryPage key={name} what="run" name={name} names={names} subjectOf={subjectOf} />
  );
}

const statuses = statusesOf(runStatuses);
const rules: Rules = { status: statuses, before: isSeq };

const ownColumns: readonly Column<RelayRun>[] = [
  { title: "Run", cell: ({ runId }) => <Name text={runId} /> },
  {
    title: "Status",
    cell: ({ status }) =>
      status === null ? <span class="dim">{none}</span> : <Status word={status} />,
  },
  { title: "Reference", cell: ({ reference }) => reference !== null && <Name text={reference} /> },
  { title: "Error", cell: ({ error }) => error !== null && <Name text={error} /> },
  { title: "Changed", isNumber: true, cell: ({ updatedAt }) => <Time at={updatedAt} /> },
];

function RunList() {
  const { query } = useQuery(rules);
  const { q, status, account, before } = query;
  const filter = { q, status, account };
  const { answer: list, reveal } = useMasked(
    (mask) =>
      relay.listRuns({
        ...filter,
        ...mask,
        before: before === undefined ? undefined : Number(before),
      }),
    [filter, before],
    before !== undefined,
  );
  const columns = useAccountColumn(ownColumns, list.data?.data ?? []);
  const isFiltered =
    Object.values(filter).some((value) => value !== undefined) || before !== undefined;
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
      <Answer of={list}>
        {({ data }) =>
          data.length > 0 ? (
            <Table
              label="Runs"
              rows={data}
              columns={columns}
              keyOf={({ account, runId }) => `${account} ${runId}`}
              hrefOf={({ account, runId }) =>
                path(`/runs/${encodeURIComponent(runId)}`, { account })
              }
            />
          ) : isFiltered ? (
            <Empty title="No run matches">
              <p>
                Search finds a run id, a masked id from a log line, and the beginning of a
                reference.
              </p>
            </Empty>
          ) : (
            <Empty title="No runs yet">
              <p>
                A run of an automation appears here when you start it through the relay, or when its
                result arrives. To send a result:
              </p>
              <Code text="wamid-relay trigger automation.completed" label="Command" />
            </Empty>
          )
        }
      </Answer>
      <Pages page="/runs" next={list.data?.next ?? null} />
    </>
  );
}

function subjectOf({ run, events }: RelayStory): Subject | null {
  if (run === null) return null;
  const { runId, account, status, error, times, registeredAt, updatedAt } = run;
  return {
    name: runId,
    account,
    status,
    updatedAt,
    timeline: {
      steps: stepsOf(times, events),
      isOpen: stageOf(runStatuses, status) === "open",
      failure: error === null ? null : <bdi>{error}</bdi>,
    },
    facts: (
      <>
        <Fact name="Run" text={runId} />
        <CommonFacts of={run} />
        <Registered at={registeredAt} />
      </>
    ),
  };
}
