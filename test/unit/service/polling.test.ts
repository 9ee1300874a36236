import fc from "fast-check";
import { expect, test } from "vitest";
import type { ServiceClient } from "../../../src/service/client.ts";
import { ServiceError, type ServiceFailure } from "../../../src/service/errors.ts";
import { createPolling, type PollingParts } from "../../../src/service/polling.ts";

type Step = "found" | "missing" | "refused" | "unreadable" | "down" | "closed" | "another client";
const failures: Record<Exclude<Step, "found" | "another client">, ServiceFailure> = {
  missing: { kind: "not-found" },
  refused: { kind: "plan", cause: null },
  unreadable: { kind: "malformed", problem: "x" },
  down: { kind: "unexpected" },
  closed: { kind: "network", code: "closed" },
};

function open() {
  const noted: (string | null)[] = [];
  let next: Step = "found";
  const newClient = () =>
    ({
      async getMessage() {
        if (next === "found") return { wamid: "w", status: "sent", errorCode: null };
        const failure = failures[next as keyof typeof failures];
        throw new ServiceError({
          endpoint: "GET /messages/{id}",
          status: 404,
          text: null,
          outcome: "not-done",
          local: false,
          failure,
        });
      },
    }) as unknown as ServiceClient;
  let client = newClient();
  const services = {
    client: () => client,
    limiterOf: () => undefined,
  } as unknown as PollingParts["services"];
  const polling = createPolling({
    services,
    now: () => 7,
    polled: (_, fault) => void noted.push(fault?.reason ?? null),
  });
  return {
    noted,
    poll(step: Step) {
      if (step === "another client") client = newClient();
      next = step === "another client" ? "missing" : step;
      return polling.poll("main", "id", new AbortController().signal);
    },
  };
}

test("ten 404s in a row are a fault, until a message is found", async () => {
  const { poll, noted } = open();
  await poll("found");
  for (let n = 1; n < 10; n++)
    expect(await poll("missing")).toEqual({ type: "missing", at: 7, isCredible: true });
  expect(await poll("missing")).toMatchObject({ type: "faulty", fault: { reason: "not-found" } });
  expect(await poll("down")).toMatchObject({ type: "failed" });
  // By a reload with another key, while it waited for room.
  expect(await poll("closed")).toEqual({ type: "not-polled" });
  expect(await poll("unreadable")).toMatchObject({
    type: "faulty",
    fault: { reason: "unreadable" },
  });
  await poll("found");
  expect(await poll("missing")).toEqual({ type: "missing", at: 7, isCredible: true });
  expect(noted).toEqual([null, "not-found", "unreadable", null]);
});

test("a 404 is believed only after a message was found with the same client, and never among ten in a row", async () => {
  const steps = fc.array(
    fc.constantFrom<Step>(
      "found",
      "missing",
      "missing",
      "missing",
      "refused",
      "unreadable",
      "down",
      "another client",
    ),
    {
      maxLength: 60,
    },
  );
  await fc.assert(
    fc.asyncProperty(steps, async (course) => {
      const { poll } = open();
      let hasFound = false;
      let inRow = 0;
      for (const step of course) {
        if (step === "another client") [hasFound, inRow] = [false, 0];
        if (step === "found") [hasFound, inRow] = [true, 0];
        if (step === "missing" || step === "another client") inRow += 1;
        const answer = await poll(step);
        if (answer.type === "missing" && answer.isCredible)
          expect([hasFound, inRow < 10]).toEqual([true, true]);
        if (answer.type === "missing") expect(inRow).toBeLessThan(10);
        if (step === "found") expect(answer.type).toBe("found");
      }
    }),
  );
});
