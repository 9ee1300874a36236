import { expect, test } from "vitest";
import { z } from "zod";
import { parse } from "../../../src/control/endpoint.ts";
import { readRegistration } from "../../../src/control/track.ts";
import { trackBody } from "../../../src/model/endpoints/send.ts";

const message = { account: "main", wamid: "w1" };

test.each([
  ["one message without its wamid", { account: "main" }, ["wamid"]],
  ["the second of a list without its wamid", [message, { account: "main" }], ["1.wamid"]],
  ["neither a message nor a list", 5, [""]],
])("what may have several shapes says where the fault is: %s", (_, body, paths) => {
  expect(() => parse(trackBody, body)).toThrow(
    expect.objectContaining({
      details: paths.map((path) => ({ path, message: expect.any(String) })),
    }),
  );
});

const query = z.strictObject({
  status: z.string().optional(),
  state: z.enum(["waiting", "held", "delivered", "dead"]).optional(),
});

test.each([
  [{ statsu: "failed" }, "statsu: unknown query parameter (did you mean status?)"],
  [{ nonsense: "1" }, "nonsense: unknown query parameter (there are: status, state)"],
  [
    { state: "deliverd" },
    "state: must be one of waiting, held, delivered, dead (did you mean delivered?)",
  ],
  [{ state: "lost-for-ever" }, "state: must be one of waiting, held, delivered, dead"],
])("suggests what was probably meant: %j", (value, message) => {
  const parts = message.split(": ");
  expect(() => parse(query, value, "query parameter")).toThrow(
    expect.objectContaining({
      message,
      details: [{ path: parts[0], message: parts.slice(1).join(": ") }],
    }),
  );
});

const body = z.strictObject({
  name: z.string().min(1),
  at: z.iso.datetime().optional(),
  inner: z.strictObject({ size: z.number() }).optional(),
});
const page = z.strictObject({
  limit: z.coerce.number().int().min(1).max(1000).optional(),
  before: z.coerce.number().int().optional(),
});

test.each([
  [body, undefined, "the body is missing"],
  [body, [], "the body must be an object, not a list"],
  [body, null, "the body must be an object, not null"],
  [body, { name: 5 }, "name: must be text, not a number"],
  [body, {}, "name: is missing"],
  [body, { name: "" }, "name: must not be empty"],
  [
    body,
    { name: "a", at: "soon" },
    "at: must be a time with its zone, such as YYYY-MM-DDThh:mm:ssZ",
  ],
  [
    body,
    { name: "a", inner: { size: "1", sise: 2 } },
    "inner.size: must be a number, not text; inner.sise: unknown field (did you mean size?)",
  ],
  [trackBody, 5, "the body must be an object or a list"],
  [trackBody, { wamid: "w", fooo: 1 }, /^fooo: unknown field \(there are: account, wamid, /],
  [
    trackBody,
    [{ wamid: "w", referense: "a" }],
    "0.referense: unknown field (did you mean reference?)",
  ],
])("says in plain words what is wrong with a body: %#", (schema, value, message) => {
  expect(() => parse(schema, value)).toThrow(message);
});

test.each([
  [{ limit: "abc" }, "limit: must be a number"],
  [{ limit: "1.5" }, "limit: must be a whole number, not a fraction"],
  [{ limit: "5000" }, "limit: must be at most 1000"],
  [{ before: "99999999999999999999" }, "before: is too large"],
])("says in plain words what is wrong with a query: %j", (value, message) => {
  expect(() => parse(page, value, "query parameter")).toThrow(message);
});

test("lists the fields of a faulty line", () => {
  expect(readRegistration('{"wamid":"w","fooo":1}')).toMatchObject({
    wamid: "w",
    error: expect.stringMatching(/^fooo: unknown field \(there are: account, wamid/),
  });
});
