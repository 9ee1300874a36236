import { useState } from "preact/hooks";
import { Link } from "wouter-preact";
import type { RelayMessage, RelayStory } from "../../client/relay-client.ts";
import { messageStatuses, stageOf } from "../../model/statuses.ts";
import { relay } from "../app/api.ts";
import { path, useData, useQuery } from "../app/data.ts";
import { useRetry } from "../events/deliveries-of.tsx";
import { EventStories } from "../events/story.tsx";
import { Loading, Missing, Problem } from "../parts/notes.tsx";
import { Name, RevealButton, useReveal } from "../parts/reveal.tsx";
import { Status } from "../parts/status.tsx";
import { Time } from "../parts/time.tsx";
import { Title } from "../parts/title.tsx";
import { stepsOf } from "./steps.ts";
import { Timeline } from "./timeline.tsx";
import { useStories } from "./use-stories.ts";

/** The story of one message, by any of its names. */
export function Message({ name }: { name: string }) {
  const { account } = useQuery().query;
  const reveal = useReveal();
  const { stories, problem, isMissing, isLoading, more, reload } = useStories(name, { as: "message", account, ...reveal.asked });
  const [story, ...others] = stories ?? [];
  return (
    <>
      <div class="page-head">
        <Title>
          Message <Name text={story?.message?.wamid ?? name} />
        </Title>
        <RevealButton reveal={reveal} />
      </div>
      <Problem text={problem} retry={reload} />
      {isMissing && (
        <Missing what="message" list="/messages">
          The relay knows a message by its wamid, its reference, the service's id or a masked id from a log line. Retention may have removed
          it.
        </Missing>
      )}
      <Loading isLoading={isLoading && stories === null} />
      {others.length > 0 && stories !== null ? (
        <Choice stories={stories} />
      ) : (
        story !== undefined && <MessageStory story={story} more={more} reload={reload} />
      )}
    </>
  );
}

/** Several messages share a reference, or several accounts a wamid. */
function Choice({ stories }: { stories: readonly RelayStory[] }) {
  return (
    <section>
      <h2>Several messages have this name</h2>
      <ul class="stories">
        {stories.map(
          ({ message }) =>
            message !== null && (
              <li key={`${message.account} ${message.wamid}`} class="page-head">
                <Link href={path(`/messages/${encodeURIComponent(message.wamid)}`, { account: message.account })}>
                  <Name text={message.wamid} />
                </Link>
                {message.status !== null && <Status word={message.status} />}
                <span class="dim">{message.account}</span>
                <Time at={message.updatedAt} />
              </li>
            ),
        )}
      </ul>
    </section>
  );
}

function MessageStory({ story: { message, events }, more, reload }: { story: RelayStory; more: (() => void) | null; reload(): void }) {
  const { retry, dialog } = useRetry(
    events.flatMap(({ deliveries }) => deliveries),
    reload,
  );
  return (
    <>
      {message === null ? (
        <p>The relay has not planned the events of this message yet.</p>
      ) : (
        <>
          <section>
            <h2>Timeline</h2>
            <Timeline
              steps={stepsOf(message.times, events, message.sentAt)}
              isOpen={stageOf(messageStatuses, message.status) === "open"}
              failure={message.errorCode === null ? null : <Failure code={message.errorCode} at={message.times["failed"] ?? null} />}
            />
          </section>
          <Facts message={message} />
        </>
      )}
      <section>
        <h2>Events and deliveries</h2>
        {events.length === 0 && <p class="dim">The relay has received no event about this message.</p>}
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

/** The code of a failure, with its meaning when the relay knows one. */
function Failure({ code, at }: { code: string; at: string | null }) {
  const [near] = useState(() => (at === null ? null : Date.parse(at)));
  const { data } = useData(async () => {
    if (near === null) return null;
    // The report on quality explains the codes that occurred.
    const minute = 60_000;
    const { errors } = await relay.getQuality({ from: new Date(near - minute), to: new Date(near + minute) });
    return errors.find((each) => each.code === code)?.meaning ?? null;
  }, `${code} ${near}`);
  return (
    <>
      <span class="dim">Error code</span> <Name text={code} />
      {data !== null && ` · ${data}`} <Link href={path("/messages", { errorCode: code })}>messages with this code</Link>
    </>
  );
}

function Facts({ message }: { message: RelayMessage }) {
  const { wamid, id, conversationId, account, reference, metadata, sentAt, registeredAt, updatedAt } = message;
  return (
    <section>
      <h2>Facts</h2>
      <dl class="facts">
        <dt>Wamid</dt>
        <dd>
          <bdi class="mono">{wamid}</bdi>
        </dd>
        <Fact name="Service's id" text={id} />
        <Fact name="Conversation" text={conversationId} />
        <Fact name="Reference" text={reference} />
        <Fact name="Account" text={account} />
        <Fact name="Metadata" text={metadata === null ? null : JSON.stringify(metadata)} />
        {sentAt !== null && (
          <>
            <dt>Sent</dt>
            <dd>
              <Time at={sentAt} />
            </dd>
          </>
        )}
        <dt>Registered</dt>
        <dd>{registeredAt === null ? <span class="dim">no; the relay knows it from events only</span> : <Time at={registeredAt} />}</dd>
        <dt>Changed</dt>
        <dd>
          <Time at={updatedAt} />
        </dd>
      </dl>
    </section>
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
