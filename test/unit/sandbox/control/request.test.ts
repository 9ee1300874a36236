import fc from "fast-check";
import { expect, test } from "vitest";
import { z } from "zod";
import { invalid } from "../../../../src/sandbox/api/fault.ts";
import { answerOf, pageOf, Refusal, read } from "../../../../src/sandbox/control/routes.ts";

const idOf = (n: number) => ({ id: String(n).padStart(4, "0"), isOdd: n % 2 === 1 });

test("pages of a list are the list, whatever their size and filter; next is null on the last page only", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.nat(200), { maxLength: 60 }),
      fc.integer({ min: 1, max: 20 }),
      fc.boolean(),
      (numbers, limit, onlyOdd) => {
        const list = numbers.toSorted((a, b) => a - b).map(idOf);
        const matches = (record: { isOdd: boolean }) => !onlyOdd || record.isOdd;
        const walked: unknown[] = [];
        let after: string | undefined;
        let pages = 0;
        for (;;) {
          const { data, next } = pageOf(list, { limit, after }, matches);
          walked.push(...data);
          pages += 1;
          if (next === null) break;
          expect(data).toHaveLength(limit);
          after = next;
        }
        expect(walked).toEqual(list.filter(matches));
        expect(pages).toBe(Math.max(1, Math.ceil(walked.length / limit)));
      },
    ),
  );
});

test("a page after an id that is no more begins with the next one", () => {
  const list = [1, 3, 5].map(idOf);
  expect(pageOf(list, { limit: 10, after: "0002" }).data).toEqual([idOf(3), idOf(5)]);
  expect(pageOf(list, { limit: 10, after: "0005" })).toEqual({ data: [], next: null });
  expect(pageOf([], { limit: 1 })).toEqual({ data: [], next: null });
});

test("a body that is not what it should be says where, and all of it", () => {
  const schema = z.strictObject({ a: z.object({ b: z.number() }), c: z.string().optional() });
  const said = (value: unknown) => {
    try {
      return read(schema, value);
    } catch (error) {
      return answerOf(error);
    }
  };
  expect(said({ a: { b: 1 } })).toEqual({ a: { b: 1 } });
  expect(said({ a: { b: "1" }, c: 2 })).toMatchObject({ status: 400, body: { error: expect.stringMatching(/^a\.b: .*; c: /) } });
  expect(said(undefined)).toMatchObject({ status: 400, body: { error: expect.stringMatching(/^a: /) } });
  expect(said({ a: { b: 1 }, d: 1 })).toMatchObject({ status: 400, body: { error: expect.stringContaining('"d"') } });
});

test("the service's own refusals keep their shape; what nobody foresaw is no answer", () => {
  expect(answerOf(invalid([{ path: ["to"], message: "no" }]))).toMatchObject({
    status: 400,
    body: { error: { message: expect.any(String) } },
  });
  expect(answerOf(new Refusal(409, "taken"))).toEqual({ status: 409, body: { error: "taken" }, headers: {} });
  expect(answerOf(Object.assign(new Error("Body is too large"), { statusCode: 413 }))).toMatchObject({ status: 413 });
  expect(answerOf(new Error("a bug"))).toBeNull();
});
