import { expect, test } from "vitest";
import { readListened } from "../../../src/cli/listen/wire.ts";

test("reads what it knows, passes over later kinds, and refuses what is not a relay's", () => {
  expect(readListened({ event: "at", data: '{"seq":3,"newest":3}' })).toEqual({
    kind: "at",
    data: { seq: 3, newest: 3 },
  });
  expect(readListened({ event: "later", data: "1" })).toBeNull();
  for (const message of [
    { event: "at", data: '{"seq":"3"}' },
    { event: "hello", data: "hello" },
    { data: "hello" },
  ])
    expect(() => readListened(message)).toThrow("the stream is not that of a wamid-relay");
  expect(() => readListened({ event: "bye", data: '{"reason":"the relay is stopping"}' })).toThrow(
    "the relay is stopping",
  );
});
