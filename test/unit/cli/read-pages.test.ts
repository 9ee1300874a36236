import { expect, test } from "vitest";
import { z } from "zod";
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
    postLines: () => Promise.reject(new Error("nothing is written")),
    close: async () => {},
  };
};
const read = (pages: readonly object[]) => readPages(client(pages), "/v1/events", {}, 9, { item: z.number(), next: z.number() });

test("what the pages together did not look at is what one of them says: a later one begins behind it", async () => {
  const pages = [
    { data: [5], next: 5, unseen: 0 },
    { data: [4, 1], next: 1, unseen: 2 },
    { data: [], next: null, unseen: 0 },
  ];
  expect(await read(pages)).toEqual({ data: [5, 4, 1], next: null, unseen: 2 });
});

test("an older relay does not say what it did not look at", async () => {
  expect(await read([{ data: [5], next: null }])).toEqual({ data: [5], next: null, unseen: 0 });
});
