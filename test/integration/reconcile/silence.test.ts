import { expect, test } from "vitest";
import { longestWaitMs, until } from "../../harness/until.ts";
import { startHttp } from "../url-destination/downstream.ts";
import { openStage, type Stage } from "./stage.ts";

const minute = 60_000;

interface Alert {
  readonly alarm: string;
  readonly state: string;
  readonly account: string;
  readonly causes: string[];
  readonly text: string;
}

async function openAlertUrl(status = 200) {
  const { url, seen } = await startHttp((_request, response) => response.writeHead(status).end());
  return {
    url: `${url}/secret-of-the-url`,
    alerts: () => seen.map(({ body }) => JSON.parse(String(body)) as Alert),
  };
}

const alarmsOf = async (stage: Stage) =>
  ((await stage.ask("GET", "/readyz")).body as { ready: boolean; alarms: Alert[] }).alarms;
const gauge = async (stage: Stage) =>
  /^relay_silence\{account="main"\} (\d)$/m.exec(await stage.metrics())?.[1];

test("raises one alarm when no webhook arrives, which ends when events arrive", async () => {
  const { url, alerts } = await openAlertUrl();
  const stage = await openStage({ settings: { silence: { alertUrl: url } } });
  await stage.send(6);
  stage.clock.jump(14 * minute);
  expect(await alarmsOf(stage)).toEqual([]);
  stage.clock.jump(2 * minute);
  await until("it is in force", async () => (await alarmsOf(stage)).length > 0);
  expect(await alarmsOf(stage)).toMatchObject([
    { alarm: "silence", account: "main", text: expect.stringContaining("no webhook has come") },
  ]);
  expect((await alarmsOf(stage))[0]?.causes[0]).toContain("webhook URL");
  expect(await gauge(stage)).toBe("1");
  stage.clock.jump(60 * minute);
  await until("the alarm is posted", () => alerts().length === 1);

  await stage.sandbox.control("POST", "/webhooks", {
    url: `${stage.url}/webhooks/main`,
    secret: stage.sandbox.secret,
  });
  await stage.send(6, "4321");
  stage.clock.jump(minute);
  await stage.sandbox.idle(longestWaitMs);
  await until("its end is posted", () => {
    stage.clock.jump(16_000);
    return alerts().length > 1;
  });
  expect(alerts().map(({ state }) => state)).toEqual(["began", "ended"]);
  expect(await alarmsOf(stage)).toEqual([]);
  expect(await gauge(stage)).toBe("0");
  expect(
    stage
      .lines()
      .filter(({ alarm }) => alarm === "silence")
      .map(({ level }) => level),
  ).toEqual(["error", "info"]);
  expect(JSON.stringify(stage.lines())).not.toContain("secret-of-the-url");
});

test("names bad signatures as the cause, and logs an alert URL that fails", async () => {
  const { url } = await openAlertUrl(500);
  const stage = await openStage({ webhooks: true, settings: { silence: { alertUrl: url } } });
  const webhooks = (await stage.sandbox.control("GET", "/webhooks")).body as {
    data: { id: string }[];
  };
  await stage.sandbox.control("POST", `/webhooks/${webhooks.data[0]?.id}/rotate`, {});
  await stage.send(20);
  stage.clock.jump(2 * minute);
  await until("one is refused", () => stage.lines().some(({ msg }) => msg === "bad signature"));
  expect(await stage.reconcile()).toMatchObject({ changed: 20 });
  // Retries of the service keep coming with the new secret.
  for (let n = 0; n < 16 && (await alarmsOf(stage)).length === 0; n++) stage.clock.jump(minute);
  const [alarm] = await alarmsOf(stage);
  expect(alarm?.causes[0]).toContain("rotated");
  await until("the failure is told", () =>
    stage.lines().some(({ msg }) => String(msg).includes("alertUrl")),
  );
});

test("raises no alarm for late webhooks", async () => {
  const stage = await openStage({ webhooks: true });
  stage.sandbox.setFaults({ events: { drop: 1 } });
  await stage.send(20, "0001");
  stage.clock.jump(90_000);
  await stage.sandbox.idle(longestWaitMs);
  stage.sandbox.setFaults({});
  expect(await stage.reconcile()).toMatchObject({ changed: 20 });
  // As if they had only been late.
  for (const { wamid, status } of stage.sandbox.messages()) {
    for (const each of ["sent", status])
      await stage.sandbox.control("POST", "/events", {
        event: "message.status",
        data: { wamid, status: each },
      });
  }
  await stage.sandbox.idle(longestWaitMs);
  for (let n = 0; n < 20; n++) {
    stage.clock.jump(minute);
    expect(await alarmsOf(stage)).toEqual([]);
  }
  expect(await stage.metrics()).not.toMatch(/^relay_webhooks_missed_total\{.*\} [1-9]/m);
});
