import { expect, test } from "vitest";
import { readPages } from "../../../src/cli/reach-relay.ts";

const client = (pages: readonly object[]) => {
  const asked: string[] = [];
  const left = [...pages];
  return {
    asked,
    async request(_method: string, path: string) {
      asked.push(path);
      return { status: 200, json: left.shift(), isReplayed: false };
    },
  };
};
const read = (pages: readonly object[]) => readPages(client(pages), "events", {}, 9);

test("reads on after an empty page until there are no more", async () => {
  const pages = [
    { data: [], next: 5 },
    { data: [], next: 1 },
    { data: [], next: null },
  ];
  expect(await read(pages)).toEqual({ data: [], next: null });
});
