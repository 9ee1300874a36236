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

test("reports the largest count of unsearched events among the pages", async () => {
  const pages = [
    { data: [], next: 5, unseen: 0 },
    { data: [], next: 1, unseen: 2 },
    { data: [], next: null, unseen: 0 },
  ];
  expect(await read(pages)).toEqual({ data: [], next: null, unseen: 2 });
});
