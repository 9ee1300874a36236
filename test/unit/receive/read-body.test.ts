import { expect, test } from "vitest";
import {
  type BodyResult,
  type BodyTaker,
  createBodyReader,
  type TakenRequest,
} from "../../../src/receive/http.ts";

/**
 * A request as far as reading its body goes: what comes is the taker's until the body is given
 * back.
 */
function reading(read: ReturnType<typeof createBodyReader>, headers: Record<string, string> = {}) {
  const results: BodyResult[] = [];
  let taker: BodyTaker | null = null;
  const over = (tell: (taker: BodyTaker) => void): void => {
    const last = taker;
    taker = null;
    if (last !== null) tell(last);
  };
  const request: TakenRequest = {
    headers,
    takeBody(next) {
      taker = next;
    },
    giveBodyBack() {
      taker = null;
    },
  };
  read(request, (result) => results.push(result));
  return {
    results,
    isTaken: () => taker !== null,
    bytes: (bytes: Buffer) => taker?.piece(bytes),
    piece: (size: number) => taker?.piece(Buffer.alloc(size, 97)),
    end: () => over((last) => last.end()),
    gone: () => over((last) => last.gone()),
  };
}

const kinds = (results: readonly BodyResult[]) => results.map(({ kind }) => kind);

test("joins pieces", () => {
  const { bytes, end, results } = reading(createBodyReader({ bodyLimit: 100, mostHeld: 1000 }));
  for (const text of ["a", "bc", "", "def"]) bytes(Buffer.from(text));
  end();
  expect(results).toEqual([{ kind: "body", body: Buffer.from("abcdef") }]);
});

test("reads a missing body as an empty one", () => {
  const { end, results } = reading(createBodyReader({ bodyLimit: 100, mostHeld: 1000 }));
  end();
  expect(results).toEqual([{ kind: "body", body: Buffer.alloc(0) }]);
});

test("applies the limit to the declared and to the received length", () => {
  const read = createBodyReader({ bodyLimit: 100, mostHeld: 10_000 });
  expect(kinds(reading(read, { "content-length": "101" }).results)).toEqual(["too-large"]);
  expect(kinds(reading(read, { "content-length": "100" }).results)).toEqual([]);
  const { piece, results, isTaken } = reading(read);
  piece(60);
  piece(40);
  expect(results).toEqual([]);
  expect(isTaken()).toBe(true);
  piece(1);
  piece(1);
  expect(kinds(results)).toEqual(["too-large"]);
  expect(isTaken()).toBe(false);
});

test("reports a sender that disconnects before the end", () => {
  const { piece, gone, results } = reading(createBodyReader({ bodyLimit: 100, mostHeld: 1000 }));
  piece(5);
  gone();
  expect(kinds(results)).toEqual(["gone"]);
});

test("refuses large bodies and reads small ones when incomplete bodies use too much memory", () => {
  const read = createBodyReader({ bodyLimit: 1_000_000, mostHeld: 300_000 });
  const large = [reading(read), reading(read), reading(read)];
  for (const { piece } of large) piece(100_000);
  expect(large.map(({ results }) => kinds(results))).toEqual([[], [], ["overloaded"]]);
  const small = reading(read);
  small.piece(60_000);
  small.end();
  expect(kinds(small.results)).toEqual(["body"]);
  // What one that has ended held is free again.
  large[0]?.gone();
  const next = reading(read);
  next.piece(100_000);
  expect(kinds(next.results)).toEqual([]);
});

test("counts nothing after bodies ended, however they ended", () => {
  const read = createBodyReader({ bodyLimit: 200_000, mostHeld: 150_000 });
  for (let n = 0; n < 500; n++) {
    const one = reading(read);
    one.piece(100_000);
    if (n % 4 === 0) one.piece(200_000);
    else if (n % 2 === 0) one.end();
    else one.gone();
    expect(kinds(one.results)).not.toContain("overloaded");
  }
});

test("counts the overhead of a body in tiny pieces", () => {
  const read = createBodyReader({ bodyLimit: 1_000_000, mostHeld: 300_000 });
  const { piece, results } = reading(read);
  for (let n = 0; n < 10_000 && results.length === 0; n++) piece(1);
  expect(kinds(results)).toEqual(["overloaded"]);
});
