import { expect, test } from "vitest";
import { until } from "../../../harness/until.ts";
import { failureOf, openScripted } from "./open-client.ts";
import { bytesOf, jsonAnswer } from "./scripted-service.ts";

const message = { to: "+5491155550000", text: "hola" };
const receipt = jsonAnswer(201, '{"id":"1","wamid":"w","status":"pending","conversationId":"c"}');
const rejected = bytesOf(
  "HTTP/1.1 502 Bad Gateway",
  '{"error":"El proveedor no lo tomó.","cause":null}',
);

/** A watch that keeps what it was told, and how many requests the service had seen by then. */
function watching(seen: readonly unknown[], fail: { at?: string } = {}) {
  const told: [string, number][] = [];
  const tell = (what: string) => async () => {
    told.push([what, seen.length]);
    if (fail.at === what) throw new Error(`no ${what}`);
  };
  return { told, watch: { starting: tell("starting"), repeating: tell("repeating") } };
}

test("calls the caller before each request, and before each wait for another", async () => {
  const { service, client } = await openScripted((_, number) => (number < 3 ? rejected : receipt), {
    retry: { isTemporary: () => true },
  });
  const { told, watch } = watching(service.seen);
  await client.sendMessage(message, { watch });
  expect(told).toEqual([
    ["starting", 0],
    ["repeating", 1],
    ["starting", 1],
    ["repeating", 2],
    ["starting", 2],
  ]);
});

test("sends nothing when the caller refuses, and returns the slot", async () => {
  const { service, client, admission } = await openScripted(() => rejected, {
    retry: { isTemporary: () => true },
  });
  await expect(
    client.sendMessage(message, { watch: watching(service.seen, { at: "starting" }).watch }),
  ).rejects.toThrow("no starting");
  expect([service.seen.length, admission.settled]).toEqual([0, [[{ type: "not-sent" }]]]);
  await expect(
    client.sendMessage(message, { watch: watching(service.seen, { at: "repeating" }).watch }),
  ).rejects.toThrow("no repeating");
  expect(service.seen.length).toBe(1);
});

test("a deadline during the wait for the next attempt returns the last failure", async () => {
  const { service, client, clock } = await openScripted(() => rejected, {
    retry: { isTemporary: () => true },
  });
  clock.holdWaits();
  const patience = new AbortController();
  const call = client.sendMessage(message, { signal: patience.signal });
  await until("it waits", () => clock.waits.length === 1);
  patience.abort(new Error("too long"));
  expect(await failureOf(call)).toMatchObject({ kind: "rejected", outcome: "not-done" });
  expect(service.seen.length).toBe(1);
});

test("a deadline before the first attempt returns its reason, and nothing is sent", async () => {
  const { service, client } = await openScripted(() => receipt, {
    admission: { enter: ({ signal }) => waitFor(signal) },
  });
  const patience = new AbortController();
  const call = client.sendMessage(message, { signal: patience.signal });
  patience.abort(new Error("too long"));
  await expect(call).rejects.toThrow("too long");
  await expect(client.sendMessage(message, { signal: patience.signal })).rejects.toThrow(
    "too long",
  );
  expect(service.seen.length).toBe(0);
});

test("a deadline during a request changes nothing", async () => {
  const patience = new AbortController();
  const { client } = await openScripted(() => {
    patience.abort(new Error("too long"));
    return receipt;
  });
  expect(await client.sendMessage(message, { signal: patience.signal })).toMatchObject({
    wamid: "w",
  });
});

function waitFor(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
}
