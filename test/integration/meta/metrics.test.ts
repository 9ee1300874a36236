import { expect, test } from "vitest";
import {
  appSecret,
  metaAccount,
  metaChange,
  metaNumber,
  metaSource,
  metaStatus,
  postMeta,
  shakeMeta,
} from "../../harness/meta-posts.ts";
import { startRelayHere } from "../../harness/relay-here.ts";

test("the metrics of a source of Meta's count its requests, its items and its secrets, and name its format", async () => {
  const { signature, verifyTokens } = metaSource;
  const wa = {
    format: "meta",
    verifyTokens,
    signature: { secrets: [...signature.secrets, "the next secret"] },
    accounts: { [metaNumber]: "main" },
  };
  const relay = await startRelayHere({ settings: { sources: { wa } } });
  const known = metaChange({
    statuses: [
      metaStatus("wamid.one", "sent"),
      metaStatus("wamid.two", "sent"),
      { id: "wamid.three" },
    ],
  });
  const unknown = metaChange({ statuses: [metaStatus("wamid.four", "sent")] }, "206540352242922");
  for (const status of [200, 200])
    expect((await postMeta(relay, known, unknown)).status).toBe(status);
  expect((await shakeMeta(relay)).status).toBe(200);
  expect((await shakeMeta(relay, "another token")).status).toBe(403);

  const text = String((await relay.ask("/metrics")).body);
  const of = (metric: string) =>
    text
      .split("\n")
      .filter((line) => line.startsWith(`${metric}{`) && line.includes('source="wa"'));
  expect(of("relay_source_info")).toEqual(['relay_source_info{source="wa",format="meta"} 1']);
  expect(of("relay_webhook_requests_total").toSorted()).toEqual([
    'relay_webhook_requests_total{source="wa",outcome="accepted"} 1',
    'relay_webhook_requests_total{source="wa",outcome="duplicate"} 1',
    'relay_webhook_requests_total{source="wa",outcome="handshake"} 1',
    'relay_webhook_requests_total{source="wa",outcome="refused"} 1',
  ]);
  expect(of("relay_events_total").toSorted()).toEqual([
    'relay_events_total{source="wa",disposition="filtered"} 2',
    'relay_events_total{source="wa",disposition="quarantined"} 1',
    'relay_events_total{source="wa",disposition="unassigned"} 1',
  ]);
  expect(of("relay_secret_uses_total")).toEqual([expect.stringMatching(/ 2$/)]);
  for (const hidden of [
    "wamid.one",
    "wamid.four",
    metaNumber,
    "206540352242922",
    metaAccount,
    appSecret,
    ...verifyTokens,
  ])
    expect(text).not.toContain(hidden);
});
