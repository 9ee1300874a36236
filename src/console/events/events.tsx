import { useEffect, useRef, useState } from "preact/hooks";
import type { Disposition, RelayEvent, RequestOf } from "../../client/relay-client.ts";
import { dispositions } from "../../model/states.ts";
import { relay } from "../app/api.ts";
import { isSeq, isTime, type Rules, usePathName, useQuery } from "../app/data.ts";
import { useLive, useTail } from "../app/live.tsx";
import { useAccountColumn } from "../parts/accounts.ts";
import { ChoiceFilter, Filters, TextFilter } from "../parts/filters.tsx";
import { FirstEventCommand } from "../parts/first-event.tsx";
import { none, plural } from "../parts/format.ts";
import { Empty, Loading, Problem } from "../parts/notes.tsx";
import { Pages } from "../parts/pages.tsx";
import { Name, RevealButton, useMasked } from "../parts/reveal.tsx";
import { Status } from "../parts/status.tsx";
import { type Column, Table } from "../parts/table.tsx";
import { Time } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";
import { Event } from "./event.tsx";
import { EventOutcome } from "./outcome.tsx";
import { addRows, caughtUp, emptyTail, showWaiting, type TailRows } from "./tail.ts";

export function Events() {
  const name = usePathName();
  return name === null ? <EventList /> : <Event key={name} name={name} />;
}

const isDigest = (text: string): boolean => /^[0-9a-f]{64}$/.test(text);
const rules: Rules = {
  request: isDigest,
  disposition: dispositions,
  from: isTime,
  to: isTime,
  before: isSeq,
};

const ownColumns: readonly Column<RelayEvent>[] = [
  { title: "Seq", cell: ({ seq }) => seq },
  { title: "Outcome", cell: (event) => <EventOutcome event={event} /> },
  { title: "Event", cell: ({ event }) => (event === null ? none : <Name text={event} />) },
  {
    title: "Status",
    cell: ({ status, errorCode }) =>
      status === null && errorCode === null ? (
        none
      ) : (
        <>
          {status !== null && <Status word={status} />}
          {errorCode !== null && (
            <span class="dim">
              {" "}
              <Name text={errorCode} />
            </span>
          )}
        </>
      ),
  },
  {
    title: "About",
    cell: ({ subject, fault }) =>
      subject !== null ? (
        <Name text={subject.key} />
      ) : (
        // What is no event has its fault instead.
        fault !== null && <bdi class="dim">{fault}</bdi>
      ),
  },
  { title: "Received", isNumber: true, cell: ({ receivedAt }) => <Time at={receivedAt} /> },
];

/** Below this scroll position somebody reads: new rows wait, because they would move the text. */
const readingPx = 120;
/** Rows of the tail show their deliveries after a fresh read. */
const refreshMs = 3_000;

/** Searches stored events; without a search it follows new ones. */
function EventList() {
  const { query, set } = useQuery(rules);
  const { q, event, status, source, account, errorCode, request, from, to, before } = query;
  const disposition = query["disposition"] as Disposition | undefined;
  const filter = { event, status, disposition, source, account, errorCode };
  const isSearch = [q, request, from, to, before].some((value) => value !== undefined);
  const isPaused = query["tail"] === "off";
  const search = [filter, q, request, from, to, before];
  const { answer, reveal } = useMasked(
    (mask) =>
      relay.listEvents({
        ...filter,
        ...mask,
        q,
        request,
        from,
        to,
        before: before === undefined ? undefined : Number(before),
      }),
    search,
    true,
  );
  const { data, problem, isLoading, reload } = answer;
  const tail = useEventTail({
    filter,
    key: JSON.stringify([search, reveal.isRevealed]),
    isOff: isSearch,
    isPaused,
    reload: reveal.isRevealed ? null : reload,
  });
  const rows = merged(isSearch ? [] : tail.state.shown, data?.data ?? []);
  const columns = useAccountColumn(ownColumns, rows);
  const isFiltered = isSearch || Object.values(filter).some((value) => value !== undefined);

  return (
    <>
      <div class="page-head">
        <Title>Events</Title>
        {problem === null && <TailState isSearch={isSearch} isPaused={isPaused} />}
        {!isSearch && (
          <button
            type="button"
            aria-pressed={isPaused}
            onClick={() => set({ tail: isPaused ? null : "off" }, true)}
          >
            {isPaused ? "Follow" : "Pause"}
          </button>
        )}
        <RevealButton reveal={reveal} />
      </div>
      <Filters rules={rules}>
        <TextFilter label="Search" name="q" placeholder="id, seq, wamid, phone…" />
        <TextFilter label="Event" name="event" placeholder="message.status" />
        <TextFilter label="Status" name="status" placeholder="failed" />
        <TextFilter label="Error code" name="errorCode" placeholder="131026" />
        <ChoiceFilter label="Disposition" name="disposition" choices={dispositions} />
        <TextFilter label="Source" name="source" />
        <TextFilter label="Account" name="account" />
        {isSearch && (
          <button
            type="button"
            onClick={() => set({ q: null, request: null, from: null, to: null, before: null })}
          >
            Clear the search
          </button>
        )}
      </Filters>
      <Problem text={problem} retry={reload} isLoading={isLoading} />
      <Loading isLoading={isLoading && data === null} />
      {!isSearch && <Waiting state={tail.state} show={tail.show} />}
      {data !== null &&
        (rows.length > 0 ? (
          <Table
            label="Events"
            rows={rows}
            columns={columns}
            keyOf={({ seq }) => seq}
            hrefOf={({ seq }) => `/events/${seq}`}
          />
        ) : isFiltered ? (
          <Empty title="No event matches">
            <p>
              Search finds an event id, a seq, a masked id from a log line, a wamid, a reference, a
              user id of Meta, or the last four digits of a phone.
            </p>
          </Empty>
        ) : (
          <FirstEvent />
        ))}
      <Pages page="/events" next={data?.next ?? null} />
    </>
  );
}

/**
 * The stored rows replace those of the tail: they know the deliveries. Those of the tail below them
 * are on the older page, and may have gaps.
 */
function merged(tail: readonly RelayEvent[], stored: readonly RelayEvent[]): RelayEvent[] {
  const oldest = stored.at(-1)?.seq ?? 0;
  const newer = tail.filter(({ seq }) => seq >= oldest);
  const bySeq = new Map([...newer, ...stored].map((row) => [row.seq, row]));
  return [...bySeq.values()].sort((a, b) => b.seq - a.seq);
}

interface TailOptions {
  readonly filter: RequestOf<"live">;
  readonly key: string;
  readonly isOff: boolean;
  readonly isPaused: boolean;
  /** Null: every read would be logged. */
  readonly reload: (() => void) | null;
}

function useEventTail({ filter, key, isOff, isPaused, reload }: TailOptions) {
  const { connection } = useLive();
  const [{ of, state }, setState] = useState<{ of: string; state: TailRows<RelayEvent> }>({
    of: key,
    state: emptyTail,
  });
  const current = of === key ? state : emptyTail;
  const isStale = useRef(false);
  const skippedSince = useRef(0);

  useTail(isOff ? null : filter, (events, skipped) => {
    isStale.current = true;
    skippedSince.current += skipped;
    const holds = isPaused || window.scrollY > readingPx;
    setState((before) => ({
      of: key,
      state: addRows(before.of === key ? before.state : emptyTail, events, skipped, holds),
    }));
  });
  useEffect(() => {
    if (isOff || isPaused || reload === null) return undefined;
    const timer = setInterval(() => {
      if (window.scrollY > readingPx || document.visibilityState !== "visible") return;
      // Nobody reads further down, and the fresh read shows the newest anyway.
      const skipped = skippedSince.current;
      skippedSince.current = 0;
      setState((before) => {
        const state = caughtUp(before.state, skipped);
        return state === before.state ? before : { ...before, state };
      });
      if (!isStale.current && connection !== "polling") return;
      isStale.current = false;
      reload();
    }, refreshMs);
    return () => clearInterval(timer);
  }, [isOff, isPaused, reload, connection]);
  // Events between the first read and the stream, or during a broken connection, are read once
  // more.
  useEffect(() => {
    if (connection === "live") isStale.current = true;
    // A hidden page has no stream: what it missed would leave a gap.
    if (connection === "connecting" && !isPaused) setState({ of: key, state: emptyTail });
  }, [connection, key]);

  const show = () => setState({ of: key, state: showWaiting(current) });
  useEffect(() => {
    if (!isPaused) show();
  }, [isPaused]);
  return { state: current, show };
}

function TailState({ isSearch, isPaused }: { isSearch: boolean; isPaused: boolean }) {
  const { connection } = useLive();
  if (isSearch) return <Status word="search in stored events" tone="quiet" />;
  if (isPaused) return <Status word="paused" tone="open" />;
  if (connection === "polling") return <Status word="read every few seconds" tone="ok" />;
  if (connection === "connecting") return <Status word="connecting" tone="open" />;
  return connection === "live" ? (
    <Status word="following" tone="ok" />
  ) : (
    <Status word="not connected" tone="attention" />
  );
}

/** New rows that are not in the table, so that nothing moves. */
function Waiting({
  state: { waiting, skipped },
  show,
}: {
  state: TailRows<RelayEvent>;
  show(): void;
}) {
  return (
    <div class="waiting" aria-live="polite">
      {waiting.length > 0 && (
        <button
          type="button"
          onClick={() => {
            show();
            window.scrollTo({ top: 0 });
          }}
        >
          ↑ Show {plural(waiting.length, "new event")}
        </button>
      )}
      {skipped > 0 && (
        <p class="dim">
          {plural(skipped, "event")} skipped: too many arrive to show each. Narrow the filter, or
          search.
        </p>
      )}
    </div>
  );
}

function FirstEvent() {
  return (
    <Empty title="No events yet">
      <p>
        The relay shows each webhook here as it arrives. To send one that is signed like the
        service's, from the folder of the settings:
      </p>
      <FirstEventCommand />
    </Empty>
  );
}
