import { expect, test } from "vitest";
import { readPages } from "../../../src/cli/control-client.ts";

test("reads on after an empty page until there are no more, or enough", async () => {
  const asked: (number | undefined)[] = [];
  const read = (limit: number) =>
    readPages(
      async ({ before }: { before: number | undefined }) => {
        asked.push(before);
        const [data, next] =
          before === undefined ? [[], 5] : before === 5 ? [["a", "b"], 1] : [["c"], null];
        return { data, next };
      },
      limit,
      undefined,
    );
  expect(await read(9)).toEqual({ data: ["a", "b", "c"], next: null });
  expect(asked.splice(0)).toEqual([undefined, 5, 1]);
  expect(await read(2)).toEqual({ data: ["a", "b"], next: 1 });
  expect(asked).toEqual([undefined, 5]);
});
