import { expect, test } from "vitest";
import { z } from "zod";
import { parse } from "../../../src/control/endpoint.ts";
import { trackBody } from "../../../src/control/track.ts";

const message = { account: "main", wamid: "w1" };

test.each([
  ["one message without its wamid", { account: "main" }, ["wamid"]],
  ["the second of a list without its wamid", [message, { account: "main" }], ["1.wamid"]],
  ["neither a message nor a list", 5, [""]],
])("what may have several shapes says where the fault is: %s", (_, body, paths) => {
  expect(() => parse(trackBody, body)).toThrow(
    expect.objectContaining({ details: paths.map((path) => ({ path, message: expect.any(String) })) }),
  );
});

const query = z.strictObject({ status: z.string().optional(), state: z.enum(["waiting", "held", "delivered", "dead"]).optional() });

test.each([
  [{ statsu: "failed" }, "statsu: unknown query parameter (did you mean status?)"],
  [{ nonsense: "1" }, "nonsense: unknown query parameter (there are: status, state)"],
  [{ state: "deliverd" }, "state: must be one of waiting, held, delivered, dead (did you mean delivered?)"],
  [{ state: "lost-for-ever" }, "state: must be one of waiting, held, delivered, dead"],
])("suggests what was probably meant: %j", (value, message) => {
  const parts = message.split(": ");
  expect(() => parse(query, value, "query parameter")).toThrow(
    expect.objectContaining({ message, details: [{ path: parts[0], message: parts.slice(1).join(": ") }] }),
  );
});
