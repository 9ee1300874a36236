import { Link } from "wouter-preact";
import type { RelayStory } from "../../client/relay-client.ts";
import { meaningOf } from "../../model/failure-codes.ts";
import { messageStatuses, stageOf } from "../../model/statuses.ts";
import { path } from "../app/data.ts";
import { Name } from "../parts/reveal.tsx";
import { Time } from "../parts/time.tsx";
import { stepsOf } from "./steps.ts";
import { CommonFacts, Fact, Registered, StoryPage, type Subject } from "./story-page.tsx";

/** The story of one message, by any of its names. */
export function Message({ name }: { name: string }) {
  const names = "its wamid, its reference, the service's id or a masked id from a log line";
  return <StoryPage what="message" name={name} names={names} subjectOf={subjectOf} />;
}

function subjectOf({ message, events }: RelayStory): Subject | null {
  if (message === null) return null;
  const {
    wamid,
    phone,
    id,
    conversationId,
    account,
    status,
    errorCode,
    times,
    sentAt,
    registeredAt,
    updatedAt,
  } = message;
  return {
    name: wamid,
    account,
    status,
    updatedAt,
    timeline: {
      steps: stepsOf(times, events, sentAt),
      isOpen: stageOf(messageStatuses, status) === "open",
      failure: errorCode === null ? null : <Failure code={errorCode} />,
    },
    facts: (
      <>
        <Fact name="Wamid" text={wamid} />
        <Fact name="Phone" text={phone} />
        <Fact name="Service's id" text={id} />
        <Fact name="Conversation" text={conversationId} />
        <CommonFacts of={message} />
        {sentAt !== null && (
          <>
            <dt>Sent</dt>
            <dd>
              <Time at={sentAt} />
            </dd>
          </>
        )}
        <Registered at={registeredAt} />
        <dt>Changed</dt>
        <dd>
          <Time at={updatedAt} />
        </dd>
      </>
    ),
  };
}

/** The code of a failure, with its meaning when the relay knows one. */
function Failure({ code }: { code: string }) {
  const meaning = meaningOf(code);
  return (
    <>
      <span class="dim">Error code</span> <Name text={code} />
      {meaning !== null && ` · ${meaning}`}{" "}
      <Link href={path("/messages", { errorCode: code })}>messages with this code</Link>
    </>
  );
}
