import { expect, test } from "vitest";
import type { Finding } from "../../../src/cli/doctor/finding.ts";
import type { SourceView } from "../../../src/model/answers.ts";
import { engines, storageOf } from "../../harness/engines.ts";
import { metaChange, metaNumber, metaSource, metaStatus, postMeta, shakeMeta } from "../../harness/meta-posts.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { until } from "../../harness/until.ts";
import { runOn } from "./run-cli.ts";

const otherNumber = "206540352242922";
const source = { ...metaSource, accounts: { [metaNumber]: "main" } };

async function judged(relay: RelayHere): Promise<string[]> {
  const { out } = await runOn(relay, "doctor", "--offline", "--json");
  const { checks } = JSON.parse(out) as { checks: Finding[] };
  return checks.filter(({ check }) => check === "source").map(({ level, message }) => `${level} ${message}`);
}

const sources = async (relay: RelayHere) => ((await relay.ask("/v1/sources")).body as { data: SourceView[] }).data;

test.each(engines)("doctor reports Meta's handshake and the last event of each number, also without a relay (%s)", async (engine) => {
  const relay = await startRelayHere({ settings: { ...(await storageOf(engine)), sources: { wa: source } } });
  expect(await judged(relay)).toEqual(["warn wa: no handshake was received yet"]);

  await shakeMeta(relay, "wrong");
  await postMeta(
    relay,
    metaChange({ statuses: [metaStatus("wamid.1", "sent")] }),
    metaChange({ statuses: [metaStatus("wamid.2", "sent")] }, otherNumber),
  );
  await until("both numbers are noted", async () => (await sources(relay))[0]?.numbers.length === 2);
  const numbers = [
    expect.stringMatching(/^ok wa: number 106540352242922, account main: the last event came \d+ s ago$/),
    expect.stringMatching(/^warn wa: number 206540352242922 has no account: the last event came \d+ s ago$/),
  ];
  expect(await judged(relay)).toEqual(["ok wa: no handshake was received, but events are", ...numbers]);

  await shakeMeta(relay);
  await until("the handshake is noted", async () => (await sources(relay))[0]?.handshake?.doneAt !== null);
  const done = [expect.stringMatching(/^ok wa: Meta performed the handshake on 20\d\d-/), ...numbers];
  expect(await judged(relay)).toEqual(done);
  expect(await sources(relay)).toMatchObject([{ source: "wa", kind: "events", format: "meta", accounts: ["main"] }]);
  await relay.stop();
  expect(await judged(relay)).toEqual(done);
});
