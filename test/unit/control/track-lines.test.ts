import type { FastifyRequest } from "fastify";
import { expect, test } from "vitest";
import { createHttp } from "../../../src/control/http.ts";
import { type RegistrationOutcome, registerLines } from "../../../src/control/track.ts";
import type { Registration } from "../../../src/model/endpoints/send.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";

const lines = (from: number, count: number) =>
  Buffer.from(
    Array.from({ length: count }, (_, n) => `{"account":"main","wamid":"w${from + n}"}\n`).join(""),
  );

function run(
  body: Buffer,
  registerEach: (some: readonly Registration[]) => Promise<RegistrationOutcome[]>,
  stop = new AbortController().signal,
) {
  const faults: unknown[] = [];
  const http = createHttp(null, (error) => void faults.push(error));
  const report = registerLines(body, {
    registerEach,
    shown: (line) => line,
    isStopping: () => stop.aborted,
    faultOf: (error) =>
      http.faultOf(error, {
        id: "req-1",
        routeOptions: { config: {} },
      } as unknown as FastifyRequest),
  });
  return { report, faults };
}

const created = async (some: readonly Registration[]): Promise<RegistrationOutcome[]> =>
  some.map(() => ({ result: "created" }));

async function linesOf(report: AsyncIterable<string>): Promise<Record<string, unknown>[]> {
  let text = "";
  for await (const part of report) text += part;
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

test("registers batches of at most 200 whole lines", async () => {
  const batches: number[] = [];
  const { report } = run(lines(1, 451), (some) => {
    batches.push(some.length);
    return created(some);
  });
  expect((await linesOf(report)).at(-1)).toEqual({
    lines: 451,
    created: 451,
    known: 0,
    conflict: 0,
    invalid: 0,
  });
  expect(batches).toEqual([200, 200, 51]);
});

test("reports what was registered, and where it stopped, when the store fails midway", async () => {
  let calls = 0;
  const { report, faults } = run(
    Buffer.concat([Buffer.from("\n\n"), lines(3, 450)]),
    async (some) => {
      calls += 1;
      if (calls === 3) throw new StoreUnavailable("cannot store now: the disk is full");
      return created(some);
    },
  );
  const all = await linesOf(report);
  expect(all.length).toBe(399);
  expect(all.at(-2)).toEqual({ line: 400, wamid: "w400", result: "created" });
  expect(all.at(-1)).toEqual({
    lines: 398,
    created: 398,
    known: 0,
    conflict: 0,
    invalid: 0,
    stoppedAt: 401,
    error: "cannot store now: the disk is full",
    code: "store_unavailable",
  });
  expect(faults).toEqual([]);
});

test("throws when the store fails at once, so that the error gets its own status", async () => {
  const error = new StoreUnavailable("no");
  const { report } = run(lines(1, 1), () => Promise.reject(error));
  await expect(report.next()).rejects.toBe(error);
});

test("reports an unexpected error to the log and hides its text", async () => {
  let calls = 0;
  const { report, faults } = run(lines(1, 201), (some) =>
    calls++ === 0 ? created(some) : Promise.reject(new TypeError("secret")),
  );
  expect((await linesOf(report)).at(-1)).toMatchObject({
    stoppedAt: 201,
    code: "internal",
    error: "internal error; see the relay's log under request req-1",
  });
  expect(faults).toEqual([new TypeError("secret")]);
});

test("stops between two batches", async () => {
  const stop = new AbortController();
  const { report } = run(
    lines(1, 400),
    (some) => {
      stop.abort();
      return created(some);
    },
    stop.signal,
  );
  expect((await linesOf(report)).at(-1)).toMatchObject({
    lines: 200,
    stoppedAt: 201,
    code: "shutting_down",
  });
});

test("registers only as the report is consumed", async () => {
  let registered = 0;
  const { report } = run(lines(1, 800), (some) => {
    registered += some.length;
    return created(some);
  });
  await report.next();
  expect(registered).toBe(200);
  await report.next();
  expect(registered).toBe(400);
});
