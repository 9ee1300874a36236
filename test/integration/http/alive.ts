import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, onTestFinished, vi } from "vitest";
import { errorCodes } from "../../../src/model/errors.ts";
import type { EventId } from "../../../src/model/ids.ts";
import { bodyOf, type SandboxEvent } from "../../../src/sandbox/events/publisher.ts";
import { postEvent } from "../../harness/post-event.ts";
import { type AnyRelay, makeRelayHere, type RelayHere } from "../../harness/relay-here.ts";
import type { SettingsParts } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import type { RawAnswer } from "./raw-client.ts";

/** One relay for all tests of a file, which is at rest after them and has logged no error. */
export async function relayOfFile(settings: SettingsParts = {}): Promise<RelayHere> {
  const relay = await makeRelayHere({ settings });
  beforeAll(() => relay.start());
  afterAll(async () => {
    await nothingInFlight(relay);
    expectCleanLog(relay);
    await relay.dispose();
  });
  return relay;
}

/** A valid event that nobody has seen. */
export function freshEvent(
  data: SandboxEvent["data"] = {},
  event = "contact.updated",
): SandboxEvent {
  return { id: randomUUID() as EventId, event, createdAt: new Date().toISOString(), data };
}

/** The relay still runs, takes an event and has stored it. */
export async function expectAlive(relay: AnyRelay & Pick<RelayHere, "isRunning">): Promise<void> {
  const event = freshEvent();
  expect(relay.isRunning()).toBe(true);
  expect(await postEvent(relay.webhookUrl, event)).toMatchObject({ status: 200, word: "accepted" });
  const stored = await relay.ask(`/v1/events/${event.id}`);
  expect(stored).toMatchObject({
    status: 200,
    body: { id: event.id, body: bodyOf(event).toString("base64") },
  });
}

/** The answer is one of docs/reference/errors.md, in its shape. */
export function expectError(answer: RawAnswer, code: keyof typeof errorCodes): void {
  expect(answer.json).toEqual({ error: expect.any(String), code });
  expect(answer.status).toBe(errorCodes[code].status);
  const scheme = { bad_signature: "Signature", unauthorized: "Bearer" }[code as string];
  expect(answer.headers["www-authenticate"]).toBe(scheme && `${scheme} realm="wamid-relay"`);
}

/** A value of `/metrics`, all series of a name added up; 0 when there is none. */
export async function metric(
  relay: AnyRelay,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<number> {
  const { body } = await relay.ask("/metrics");
  const wanted = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
  return String(body)
    .split("\n")
    .filter(
      (line) =>
        (line.startsWith(`${name} `) || line.startsWith(`${name}{`)) &&
        wanted.every((label) => line.includes(label)),
    )
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0);
}

/** Every webhook request has been given up or answered. */
export async function nothingInFlight(relay: AnyRelay): Promise<void> {
  await until(
    "no request in flight",
    async () => (await metric(relay, "relay_webhook_requests_in_flight")) === 0,
  );
}

/** No fault that nobody foresaw was logged, and nothing unexpected was printed. */
export function expectCleanLog(relay: Pick<RelayHere, "log"> & { stderr?(): string }): void {
  // An alarm reports what a test did on purpose, such as quarantined bodies.
  expect(
    relay
      .log()
      .filter(
        ({ level, alarm }) => (level === "error" || level === "fatal") && alarm === undefined,
      ),
  ).toEqual([]);
  expect(
    (relay.stderr?.() ?? "")
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("warning: ")),
  ).toEqual([]);
}

/** What was kept of quarantined bodies, newest first. */
export async function quarantined(
  relay: AnyRelay,
): Promise<{ seq: number; fault: string; size: number; secret: string | null }[]> {
  const { body } = await relay.ask("/v1/events?disposition=quarantined&limit=1000");
  return (body as { data: { seq: number; fault: string; size: number; secret: string | null }[] })
    .data;
}

/**
 * Holds the time of a stop's drain, which lasts a second: a test process may pause for longer.
 * Returns what lets it pass again.
 */
export function holdDrain(): () => void {
  const time = vi.spyOn(performance, "now").mockReturnValue(performance.now());
  onTestFinished(() => time.mockRestore());
  return () => time.mockRestore();
}
