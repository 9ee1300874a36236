import { expect, onTestFinished, test } from "vitest";
import { until } from "../../harness/until.ts";
import { bytesOf, jsonAnswer, startScripted } from "../service/client/scripted-service.ts";
import { type AccountDone, openStage, type Stage } from "./stage.ts";

const minute = 60_000;
const stopOf = ({ stopped }: AccountDone) =>
  stopped as (AccountDone["stopped"] & { detail?: string }) | null;
const alarmsOf = async (stage: Stage) => {
  const { alarms } = (await stage.ask("GET", "/readyz")).body as {
    alarms: { alarm: string; text: string }[];
  };
  return alarms.filter(({ alarm }) => alarm === "polls");
};
const missingOf = async (stage: Stage) =>
  (
    (await stage.ask("POST", "/v1/reconcile", { dryRun: true })).body as {
      accounts: { missing: number }[];
    }
  ).accounts[0]?.missing;
test("raises an alarm and marks nothing missing when the key of another account gets 404 for all", async () => {
  const stage = await openStage();
  await stage.send(30);
  const other = await openStage();
  await stage.reload({ baseUrl: other.sandbox.url, apiKey: other.sandbox.key });
  for (let n = 0; n < 4; n++) {
    stage.clock.jump(10 * minute);
    const done = await stage.reconcile();
    expect(stopOf(done)).toMatchObject({
      reason: "not-found",
      detail: expect.stringContaining("404"),
      until: expect.any(String),
    });
    expect(done).toMatchObject({ changed: 0, unchanged: 0 });
  }
  await until("the alarm", async () => (await alarmsOf(stage)).length > 0);
  expect(await alarmsOf(stage)).toMatchObject([
    { alarm: "polls", text: expect.stringContaining("404 to every poll") },
  ]);
  expect(stage.lines().filter(({ alarm }) => alarm === "polls")).toHaveLength(1);
  expect(await stage.metrics()).toContain('relay_polls_faulty{account="main"} 1');
  expect(await missingOf(stage)).toBe(0);

  await stage.reload({});
  stage.clock.jump(60 * minute);
  expect((await stage.reconcile()).stopped).toBeNull();
  stage.clock.jump(60 * minute);
  await stage.reconcile();
  expect(await stage.statuses()).toEqual(stage.truth());
  await until("the alarm ends", async () => (await alarmsOf(stage)).length === 0);
  expect(await stage.metrics()).toContain('relay_polls_faulty{account="main"} 0');
});

test("marks nothing missing when 404s begin after everything was found", async () => {
  const wamids = new Map<string, string>();
  let isBroken = false;
  const service = await startScripted(({ path }) =>
    isBroken
      ? jsonAnswer(404, '{"error":"No encontramos ese mensaje.","cause":null}')
      : jsonAnswer(
          200,
          JSON.stringify({ wamid: wamids.get(path.split("/").at(-1) ?? ""), status: "sent" }),
        ),
  );
  const stage = await openStage({ account: { baseUrl: service.baseUrl } });
  for (const { id, wamid } of await stage.send(30)) wamids.set(id, wamid);
  stage.clock.jump(2 * minute);
  expect(await stage.reconcile()).toMatchObject({ polled: 30, stopped: null });
  isBroken = true;
  for (let n = 0; n < 6; n++) {
    stage.clock.jump(15 * minute);
    expect(stopOf(await stage.reconcile())).toMatchObject({ reason: "not-found" });
  }
  expect(await missingOf(stage)).toBe(0);
  isBroken = false;
  stage.clock.jump(120 * minute);
  expect(await stage.reconcile()).toMatchObject({ polled: 30, missing: 0, stopped: null });
  await until("the alarm ends", async () => (await alarmsOf(stage)).length === 0);
});

test.each([
  [
    "402",
    jsonAnswer(402, '{"error":"Tu plan no permite la API","cause":{"type":"upgrade"}}'),
    "refused",
    5,
  ],
  ["HTML", bytesOf("HTTP/1.1 200 OK\ncontent-type: text/html", "<h1>hola</h1>"), "unreadable", 5],
])(
  "%s to every poll: reported as what it is, with an alarm, and tried ever more rarely",
  async (_, answer, reason, least) => {
    let heals: Buffer | null = null;
    const service = await startScripted(() => heals ?? answer);
    const stage = await openStage({
      account: { baseUrl: service.baseUrl },
      settings: { reconcile: { schedule: "* * * * *" } },
    });
    await stage.send(40);
    stage.clock.jump(2 * minute);
    await until("the alarm", async () => {
      stage.clock.jump(1_000);
      return (await alarmsOf(stage)).length > 0;
    });
    expect(await alarmsOf(stage)).toMatchObject([{ alarm: "polls" }]);
    await until("the pass ended", () =>
      stage.lines().some(({ stopped, detail }) => stopped === reason && typeof detail === "string"),
    );
    const first = service.seen.length;
    expect(first).toBeGreaterThanOrEqual(least);
    expect(first).toBeLessThan(20);
    const plan = (await stage.ask("POST", "/v1/reconcile", { dryRun: true })).body as {
      accounts: AccountDone[];
    };
    expect(plan.accounts[0]?.stopped).toMatchObject({ reason });
    // Two hours: one call for each pass, after 1, 2, 4 … minutes.
    for (let n = 0; n < 120; n++) stage.clock.jump(minute);
    expect(service.seen.length - first).toBeLessThan(12);
    heals = jsonAnswer(200, '{"wamid":"another","status":"sent"}');
    await until("the alarm ends", async () => {
      stage.clock.jump(minute);
      return (await alarmsOf(stage)).length === 0;
    });
  },
);

test("one invalid record affects only itself", async () => {
  const answers = new Map<string, Buffer>();
  const service = await startScripted(({ path }) => answers.get(path.split("/").at(-1) ?? ""));
  const stage = await openStage({ account: { baseUrl: service.baseUrl } });
  onTestFinished(() => answers.clear());
  const sent = await stage.send(12);
  for (const [n, { id, wamid }] of sent.entries()) {
    const odd = n === 3 ? '{"code":1}' : n === 4 ? "12345678901234567890" : "131026";
    answers.set(
      id,
      n === 5
        ? bytesOf("HTTP/1.1 200 OK", "{")
        : jsonAnswer(200, `{"wamid":"${wamid}","status":"failed","errorCode":${odd}}`),
    );
  }
  stage.clock.jump(2 * minute);
  expect(await stage.reconcile()).toMatchObject({
    polled: 12,
    changed: 11,
    failed: 1,
    stopped: null,
  });
  const { body } = await stage.ask("GET", `/v1/messages/${sent[4]?.wamid}`);
  expect(body).toMatchObject({ status: "failed", errorCode: "12345678901234567890" });
});
