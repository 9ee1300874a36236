import { EventEmitter } from "node:events";
import type { IncomingMessage } from "node:http";
import { expect, test } from "vitest";
import { type BodyResult, createBodyReader } from "../../../src/receive/read-body.ts";

/** A request as far as reading its body goes. */
function request(headers: Record<string, string> = {}): EventEmitter & IncomingMessage {
  return Object.assign(new EventEmitter(), { headers }) as unknown as EventEmitter & IncomingMessage;
}

function reading(read: ReturnType<typeof createBodyReader>, message = request()) {
  const results: BodyResult[] = [];
  read(message, (result) => results.push(result));
  return { message, results, piece: (size: number) => message.emit("data", Buffer.alloc(size, 97)) };
}

const kinds = (results: readonly BodyResult[]) => results.map(({ kind }) => kind);

test("pieces are joined; what ends after is not called back again", () => {
  const { message, results } = reading(createBodyReader({ bodyLimit: 100, mostHeld: 1000 }));
  for (const text of ["a", "bc", "", "def"]) message.emit("data", Buffer.from(text));
  for (const event of ["end", "close", "error"]) message.emit(event);
  expect(results).toEqual([{ kind: "body", body: Buffer.from("abcdef") }]);
});

test("no body is an empty one", () => {
  const { message, results } = reading(createBodyReader({ bodyLimit: 100, mostHeld: 1000 }));
  message.emit("end");
  expect(results).toEqual([{ kind: "body", body: Buffer.alloc(0) }]);
});

test("the limit holds for what is declared and for what comes", () => {
  const read = createBodyReader({ bodyLimit: 100, mostHeld: 10_000 });
  expect(kinds(reading(read, request({ "content-length": "101" })).results)).toEqual(["too-large"]);
  expect(kinds(reading(read, request({ "content-length": "100" })).results)).toEqual([]);
  const { piece, results } = reading(read);
  piece(60);
  piece(40);
  expect(results).toEqual([]);
  piece(1);
  piece(1);
  expect(kinds(results)).toEqual(["too-large"]);
});

test.each(["error", "close"])("%s before the end: gone, once", (event) => {
  const { message, piece, results } = reading(createBodyReader({ bodyLimit: 100, mostHeld: 1000 }));
  piece(5);
  message.emit(event);
  message.emit("end");
  expect(kinds(results)).toEqual(["gone"]);
});

test("when all incomplete bodies hold too much, large ones are refused and small ones still read", () => {
  const read = createBodyReader({ bodyLimit: 1_000_000, mostHeld: 300_000 });
  const large = [reading(read), reading(read), reading(read)];
  for (const { piece } of large) piece(100_000);
  expect(large.map(({ results }) => kinds(results))).toEqual([[], [], ["overloaded"]]);
  const small = reading(read);
  small.piece(60_000);
  small.message.emit("end");
  expect(kinds(small.results)).toEqual(["body"]);
  // What one that has ended held is free again.
  large[0]?.message.emit("close");
  const next = reading(read);
  next.piece(100_000);
  expect(kinds(next.results)).toEqual([]);
});

test("nothing stays counted, however bodies end", () => {
  const read = createBodyReader({ bodyLimit: 200_000, mostHeld: 150_000 });
  for (let n = 0; n < 500; n++) {
    const one = reading(read);
    one.piece(100_000);
    if (n % 4 === 0) one.piece(200_000);
    else one.message.emit(["end", "close", "error"][n % 3] ?? "end");
    expect(kinds(one.results)).not.toContain("overloaded");
  }
});

test("a body in tiny pieces counts for what it costs", () => {
  const read = createBodyReader({ bodyLimit: 1_000_000, mostHeld: 300_000 });
  const { piece, results } = reading(read);
  for (let n = 0; n < 10_000 && results.length === 0; n++) piece(1);
  expect(kinds(results)).toEqual(["overloaded"]);
});
