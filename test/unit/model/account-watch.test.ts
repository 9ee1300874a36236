import { expect, test } from "vitest";
import {
  type AccountNote,
  type AccountWatch,
  countsOf,
  withNote,
} from "../../../src/model/account-watch.ts";

const minute = 60_000;
const windowMs = 15 * minute;
const start = 1_800_000_000_000;
const nothing: AccountNote = {
  account: "main",
  since: 0,
  events: 0,
  truncated: 0,
  refused: 0,
  registered: 0,
  missed: 0,
};

/** Notes at minutes after the start. */
const watchOf = (...notes: (Partial<AccountNote> & { readonly at: number })[]): AccountWatch =>
  notes.reduce<AccountWatch | null>((watch, { at, ...note }) => {
    return withNote(
      watch,
      { ...nothing, ...note, since: start + at * minute },
      start + (at + 0.1) * minute,
      windowMs,
    );
  }, null) as AccountWatch;

test("counts what was seen within the window, and keeps no more", () => {
  const watch = watchOf(
    { at: 0, events: 3 },
    { at: 0.5, events: 1, truncated: 1 },
    { at: 10, missed: 2 },
    { at: 14, events: 5 },
  );
  expect(countsOf(watch, start + 14 * minute, windowMs)).toEqual({
    events: 9,
    truncated: 1,
    refused: 0,
    missed: 2,
  });
  expect(countsOf(watch, start + 15 * minute, windowMs)).toEqual({
    events: 5,
    truncated: 0,
    refused: 0,
    missed: 2,
  });
  const later = Array.from({ length: 100 }, (_, at) => ({ at, refused: 1 }));
  expect(watchOf(...later).slots).toHaveLength(15);
});

test("counts registered messages from the last event on", () => {
  expect(watchOf({ at: 1, registered: 2 }, { at: 900, registered: 3 }).registered).toEqual({
    count: 5,
    first: start + minute,
  });
  const after = watchOf({ at: 1, registered: 2 }, { at: 2, events: 1 }, { at: 3, registered: 1 });
  expect(after).toMatchObject({
    registered: { count: 1, first: start + 3 * minute },
    lastEventAt: start + 2.1 * minute,
  });
});

test("keeps when polls and the key began to fail, until they work", () => {
  const failing = watchOf(
    { at: 1, polls: "404", isKeyRefused: true },
    { at: 2, polls: "500", isKeyRefused: true },
    { at: 3 },
  );
  expect(failing).toMatchObject({
    polls: { since: start + 1.1 * minute, text: "404" },
    keyRefusedAt: start + 1.1 * minute,
  });
  expect(
    withNote(failing, { ...nothing, polls: null, isKeyRefused: false }, start, windowMs),
  ).toMatchObject({
    polls: null,
    keyRefusedAt: null,
  });
});
