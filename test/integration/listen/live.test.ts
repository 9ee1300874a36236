import { describe, expect, onTestFinished, test } from "vitest";
import type { RelayEvent } from "../../../src/model/answers/events.ts";
import type { RelayOverview } from "../../../src/model/overview.ts";
import type { MessageStatus } from "../../../src/model/statuses.ts";
import { type Engine, engines, storageOf } from "../../harness/engines.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";

const messages = createMessages("live");

interface Message {
  readonly event: string;
  readonly id: string | null;
  readonly data: unknown;
}

/** A client of `GET /v1/live` that reads all the time; closed at the test's end. */
async function follow(relay: RelayHere, query: string, lastEventId?: string, token = relayToken) {
  const leaving = new AbortController();
  onTestFinished(() => leaving.abort());
  const headers = {
    authorization: `Bearer ${token}`,
    ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),
  };
  const answer = await fetch(`${relay.url}/v1/live${query}`, { headers, signal: leaving.signal });
  const received: Message[] = [];
  const ended = (async () => {
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of answer.body as ReadableStream<Uint8Array>) {
      text += decoder.decode(chunk, { stream: true });
      const blocks = text.split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1] ?? null;
        received.push({
          event: field("event") ?? "",
          id: field("id"),
          data: JSON.parse(field("data") ?? "null"),
        });
      }
    }
  })().catch(() => {});
  const of = (event: string) => received.filter((message) => message.event === event);
  return {
    status: answer.status,
    type: answer.headers.get("content-type"),
    ended,
    byes: () => of("bye").map(({ data }) => data),
    overviews: () => of("overview").map(({ data }) => data as RelayOverview),
    /**
     * PostgreSQL on a slow machine is strained, and that of the tests does not wait for the disk.
     */
    attention() {
      const overview = of("overview").at(-1)?.data as RelayOverview | undefined;
      return (overview?.attention ?? [])
        .map(({ kind }) => kind)
        .filter((kind) => !kind.startsWith("database-"));
    },
    pages: () => of("events").map(({ data }) => data as { data: RelayEvent[]; skipped: number }),
    events: () => of("events").flatMap(({ data }) => (data as { data: RelayEvent[] }).data),
    lastId: () => received.findLast(({ id }) => id !== null)?.id ?? undefined,
    leave: () => leaving.abort(),
  };
}

const post = async (relay: RelayHere, count: number, status: MessageStatus = "sent") => {
  const sent = Array.from({ length: count }, () => messages.status(messages.wamid(), status));
  for (const event of sent) expect((await postEvent(relay.webhookUrl, event)).status).toBe(200);
  return sent.map(({ id }) => id);
};

describe.each(engines)("GET /v1/live on %s", (engine: Engine) => {
  test("sends the overview when it changes, and events over a restart, none missing and none twice", async () => {
    const relay = await startRelayHere({
      settings: { ...(await storageOf(engine)), tracking: { unknown: "forward" } },
    });
    const [before] = await post(relay, 1);
    const quiet = await follow(relay, "");
    const first = await follow(relay, "?tail=true");
    expect(first).toMatchObject({ status: 200, type: "text/event-stream" });
    await until("the overview", () => first.overviews().length > 0);
    expect(first.attention()).toEqual([]);
    const early = await post(relay, 3);
    await until("three events", () => first.events().length === 3);
    const rows = (await relay.ask("/v1/events?limit=3")).body as { data: RelayEvent[] };
    expect(first.events()).toEqual(rows.data.toReversed());

    await postEvent(relay.webhookUrl, Buffer.from('{"no":"envelope"}'));
    await until("the overview has changed", () => first.attention()[0] === "quarantined");
    await until("it has for the other one", () => quiet.attention()[0] === "quarantined");
    expect(quiet.pages()).toEqual([]);

    await relay.stop();
    await first.ended;
    expect(first.byes()).toEqual([{ reason: "the relay is stopping" }]);
    await relay.start();
    const late = await post(relay, 60);
    const second = await follow(relay, "?tail=true", first.lastId());
    await until("the others", () => second.events().length >= 60);
    const all = [...first.events(), ...second.events()];
    expect(all.map(({ id }) => id)).toEqual([...early, null, ...late]);
    expect(all.map(({ id }) => id)).not.toContain(before);
    expect(
      [...first.pages(), ...second.pages()].every(
        ({ skipped, data }) => skipped === 0 && data.length <= 50,
      ),
    ).toBe(true);
  });
});

test("sends only the events that match", async () => {
  const relay = await startRelayHere({ settings: { tracking: { unknown: "forward" } } });
  const failed = await follow(
    relay,
    "?tail=true&status=failed&source=main&event=message.status&disposition=filtered",
  );
  const other = await follow(relay, "?tail=true&account=nobody");
  await until("both follow", () => failed.overviews().length > 0 && other.overviews().length > 0);
  await post(relay, 2, "sent");
  const ids = await post(relay, 2, "failed");
  await post(relay, 1, "read");
  await until("the failed ones", () => failed.events().length === 2);
  expect(failed.events().map(({ id }) => id)).toEqual(ids);
  expect(other.pages()).toEqual([]);
});

test("refuses a wrong query and a wrong position", async () => {
  const relay = await startRelayHere();
  expect((await relay.ask("/v1/live?kind=x")).body).toMatchObject({ code: "bad_request" });
  expect((await relay.ask("/v1/live?disposition=lost")).body).toMatchObject({
    code: "bad_request",
  });
  expect(await follow(relay, "?tail=true", "abc")).toMatchObject({ status: 400 });
});

test("masks from the next message on when a reload takes pii from the token, and shows clear values when it is back", async () => {
  const tokens = (...scopes: string[]) => ({
    control: { tokens: [{ name: "one", token: relayToken, scopes }] },
  });
  const relay = await startRelayHere({ settings: tokens("read", "pii") });
  const live = await follow(relay, "?tail=true");
  await until("it follows", () => live.overviews().length > 0);
  for (const [count, scopes, isClear] of [
    [1, ["read", "pii"], true],
    [2, ["read"], false],
    [3, ["read", "pii"], true],
  ] as const) {
    relay.writeSettings(tokens(...scopes));
    await relay.reload();
    await post(relay, 1);
    await until("the event", () => live.events().length === count);
    expect(live.events().at(-1)?.subject?.key.startsWith("wamid.")).toBe(isClear);
  }
  relay.writeSettings(tokens("replay"));
  await relay.reload();
  await post(relay, 1);
  await live.ended;
  expect(live.byes()).toEqual([{ reason: "the token or session is no longer valid" }]);
  expect(live.events()).toHaveLength(3);
});
