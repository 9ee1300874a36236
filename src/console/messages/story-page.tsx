import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { Link } from "wouter-preact";
import type { RelayStory, RequestOf } from "../../client/relay-client.ts";
import { relay } from "../app/api.ts";
import { path, useQuery } from "../app/data.ts";
import { useRetry } from "../events/deliveries-of.tsx";
import { EventStories } from "../events/story.tsx";
import { Answer, Missing } from "../parts/notes.tsx";
import { Name, RevealButton, useMasked } from "../parts/reveal.tsx";
import { Status } from "../parts/status.tsx";
import { Time } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";
import { Timeline, type TimelineProps } from "./timeline.tsx";

/** The message or run of a story. */
export interface Subject {
  readonly name: string;
  readonly account: string;
  readonly status: string | null;
  readonly updatedAt: string;
  readonly timeline: TimelineProps;
  /** Pairs of `dt` and `dd`. */
  readonly facts: ComponentChildren;
}

interface StoryPageProps {
  readonly what: "message" | "run";
  /** Any of its names. */
  readonly name: string;
  /** By which names the relay finds it. */
  readonly names: string;
  /** Null: it is not known yet. */
  readonly subjectOf: (story: RelayStory) => Subject | null;
}

/** The story of one message or run, or a choice of those that share a name. */
export function StoryPage({ what, name, names, subjectOf }: StoryPageProps) {
  const { account } = useQuery().query;
  const { all, more, reveal } = useStories(name, { as: what, account });
  const [story, ...others] = all.data ?? [];
  const subject = story === undefined ? null : subjectOf(story);
  return (
    <>
      <div class="page-head">
        <Title>
          {what === "message" ? "Message" : "Run"} <Name text={subject?.name ?? name} />
        </Title>
        <RevealButton reveal={reveal} />
      </div>
      {all.isMissing && (
        <Missing what={what} list={`/${what}s`}>
          The relay knows a {what} by {names}. Retention may have removed it.
        </Missing>
      )}
      <Answer of={all}>
        {(stories) =>
          others.length > 0 ? (
            <Choice what={what} subjects={stories.flatMap((each) => subjectOf(each) ?? [])} />
          ) : (
            story !== undefined && (
              <Story
                what={what}
                subject={subject}
                events={story.events}
                more={more}
                reload={all.reload}
              />
            )
          )
        }
      </Answer>
    </>
  );
}

/** Several messages share a reference, or several accounts a wamid. */
function Choice({
  what,
  subjects,
}: Pick<StoryPageProps, "what"> & { subjects: readonly Subject[] }) {
  return (
    <section>
      <h2>Several {what}s have this name</h2>
      <ul class="stories">
        {subjects.map(({ name, account, status, updatedAt }) => (
          <li key={`${account} ${name}`} class="page-head">
            <Link href={path(`/${what}s/${encodeURIComponent(name)}`, { account })}>
              <Name text={name} />
            </Link>
            {status !== null && <Status word={status} />}
            <span class="dim">{account}</span>
            <Time at={updatedAt} />
          </li>
        ))}
      </ul>
    </section>
  );
}

interface StoryProps extends Pick<StoryPageProps, "what"> {
  readonly subject: Subject | null;
  readonly events: RelayStory["events"];
  /** Reads another page of events; null when all are shown. */
  readonly more: (() => void) | null;
  reload(): void;
}

function Story({ what, subject, events, more, reload }: StoryProps) {
  const { retry, dialog } = useRetry(
    events.flatMap(({ deliveries }) => deliveries),
    reload,
  );
  return (
    <>
      {subject === null ? (
        <p>The relay has not planned the events of this {what} yet.</p>
      ) : (
        <>
          <section>
            <h2>Timeline</h2>
            <Timeline {...subject.timeline} />
          </section>
          <section>
            <h2>Facts</h2>
            <dl class="facts">{subject.facts}</dl>
          </section>
        </>
      )}
      <section>
        <h2>Events and deliveries</h2>
        {events.length === 0 && (
          <p class="dim">The relay has received no event about this {what}.</p>
        )}
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

export function Fact({ name, text }: { name: string; text: string | null }) {
  if (text === null) return null;
  return (
    <>
      <dt>{name}</dt>
      <dd>
        <bdi class="mono">{text}</bdi>
      </dd>
    </>
  );
}

/** The facts that messages and runs have in common. */
export function CommonFacts({
  of: { reference, account, metadata },
}: {
  of: {
    readonly reference: string | null;
    readonly account: string;
    readonly metadata: object | null;
  };
}) {
  return (
    <>
      <Fact name="Reference" text={reference} />
      <Fact name="Account" text={account} />
      <Fact name="Metadata" text={metadata === null ? null : JSON.stringify(metadata)} />
    </>
  );
}

export function Registered({ at }: { at: string | null }) {
  return (
    <>
      <dt>Registered</dt>
      <dd>
        {at === null ? (
          <span class="dim">no; the relay knows it from events only</span>
        ) : (
          <Time at={at} />
        )}
      </dd>
    </>
  );
}

const eventsPerPage = 100;

/** The stories of a message or run. `more` reads another page of events; null: all are shown. */
function useStories(name: string, filter: Omit<RequestOf<"explain">, "name">) {
  const pages = useRef(1);
  const { answer: all, reveal } = useMasked<readonly RelayStory[]>(
    async (mask) => {
      const query = { name, ...filter, ...mask, limit: eventsPerPage };
      const { data: stories } = await relay.explain(query);
      const [only, ...others] = stories;
      if (only === undefined || others.length > 0) return stories;
      let story = only;
      for (let page = 1; page < pages.current && story.next !== null; page += 1) {
        const { data: later } = await relay.explain({ ...query, after: story.next });
        const next = later[0];
        if (next === undefined) break;
        story = { ...story, events: [...story.events, ...next.events], next: next.next };
      }
      return [story];
    },
    [name, filter],
  );
  const hasMore = all.data?.length === 1 && all.data[0]?.next !== null;
  const more = () => {
    pages.current += 1;
    all.reload();
  };
  return { all, more: hasMore ? more : null, reveal };
}
