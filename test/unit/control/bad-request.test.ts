import { expect, test } from "vitest";
import { parse } from "../../../src/control/endpoint.ts";
import { trackBody } from "../../../src/control/track.ts";

const message = { account: "main", wamid: "w1" };

test.each([
  ["one message without its wamid", { account: "main" }, ["wamid"]],
  ["the second of a list without its account", [message, { wamid: "w2" }], ["1.account"]],
  ["neither a message nor a list", 5, [""]],
])("what may have several shapes says where the fault is: %s", (_, body, paths) => {
  expect(() => parse(trackBody, body)).toThrow(
    expect.objectContaining({ details: paths.map((path) => ({ path, message: expect.any(String) })) }),
  );
});
