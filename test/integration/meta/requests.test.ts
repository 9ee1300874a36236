import { expect, test } from "vitest";
import type { RelayEventDetail } from "../../../src/model/answers/events.ts";
import {
  metaChange,
  metaNumber,
  metaSource,
  metaStatus,
  postMeta,
} from "../../harness/meta-posts.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { runOn } from "../cli/run-cli.ts";

const otherNumber = "206540352242922";

const listed = async (relay: RelayHere, query: string) => {
  const { status, body } = await relay.ask(`/v1/events?${query}`);
  return {
    status,
    seqs: ((body as { data?: { seq: number }[] }).data ?? []).map(({ seq }) => seq),
  };
};
const detail = async (relay: RelayHere, seq: number) =>
  (await relay.ask(`/v1/events/${seq}`)).body as RelayEventDetail;

test("an event names its request, its place in it, and finds the others", async () => {
  const relay = await startRelayHere({
    settings: {
      accounts: { main: {}, other: {} },
      sources: {
        wa: { ...metaSource, accounts: { [metaNumber]: "main", [otherNumber]: "other" } },
      },
    },
  });
  await postMeta(relay, metaChange({ statuses: [metaStatus("wamid.0", "sent")] }));
  await postMeta(
    relay,
    metaChange({ statuses: [metaStatus("wamid.1", "sent"), 7, metaStatus("wamid.1", "read")] }),
    metaChange({ statuses: [metaStatus("wamid.2", "sent")] }, otherNumber),
  );
  const [alone = 0] = (await listed(relay, "wamid=wamid.0")).seqs;
  const [read = 0, sent = 0] = (await listed(relay, "wamid=wamid.1")).seqs;
  expect((await detail(relay, alone)).request).toBeNull();
  const { request } = await detail(relay, read);
  expect(request).toMatchObject({
    digest: expect.stringMatching(/^[0-9a-f]{64}$/),
    events: 4,
    place: 3,
  });
  expect((await detail(relay, sent)).request).toEqual({ ...request, place: 1 });
  const digest = request?.digest ?? "";
  const { seqs } = await listed(relay, `request=${digest}`);
  expect(seqs.length).toBe(4);
  expect(seqs).toContain(sent);
  expect((await listed(relay, `request=${digest}&disposition=quarantined`)).seqs.length).toBe(1);
  expect((await listed(relay, `request=${digest}&account=other`)).seqs.length).toBe(1);
  expect((await listed(relay, `request=${digest}&limit=2&before=${seqs[1]}`)).seqs).toEqual(
    seqs.slice(2),
  );
  expect((await listed(relay, `request=${"0".repeat(64)}`)).seqs).toEqual([]);
  expect((await listed(relay, "request=x")).status).toBe(400);

  const shown = `item 3 of 4 in its request; events list --request ${digest}\n`;
  expect((await runOn(relay, "events", "show", String(read))).out).toContain(shown);
  expect((await runOn(relay, "explain", String(read), "--as", "event")).out).toContain(shown);
  const others = JSON.parse(
    (await runOn(relay, "events", "list", "--request", digest, "--json")).out,
  ) as { data: { seq: number }[] };
  expect(others.data.map(({ seq }) => seq)).toEqual(seqs);
});
