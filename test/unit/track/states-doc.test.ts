import { expect, test } from "vitest";
import { messageStatuses, runStatuses, statusesOf } from "../../../src/model/statuses.ts";
import {
  stepMessage,
  stepRun,
  type TrackedState,
  unobserved,
} from "../../../src/model/tracking.ts";
import { readPage } from "../../harness/pages.ts";

const page = readPage("docs/concepts/message-states.md");

/** The first table of the page that begins with these columns. */
function tableOf(head: string): string {
  const start = page.indexOf(head);
  expect(start, head).not.toBe(-1);
  const end = page.indexOf("\n\n", start);
  return page.slice(start, end === -1 ? page.length : end).trim();
}

function written(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}

const yes = (is: boolean) => (is ? "yes" : "no");

test("the statuses of messages in docs/concepts/message-states.md are those of model/statuses.ts", () => {
  const rows = Object.entries(messageStatuses).map(
    ([status, { rank, stage, direction, webhook, error }]) => [
      `\`${status}\``,
      direction,
      String(rank),
      stage,
      yes(webhook),
      yes(error),
    ],
  );
  expect(tableOf("| status | direction |")).toBe(
    written(["status", "direction", "rank", "stage", "webhook", "error code"], rows),
  );
});

test("the statuses of runs in docs/concepts/message-states.md are those of model/statuses.ts", () => {
  const rows = Object.entries(runStatuses).map(([status, { rank, stage, event, error }]) => [
    `\`${status}\``,
    String(rank),
    stage,
    event === null ? "none" : `\`${event}\``,
    yes(error),
  ]);
  expect(tableOf("| status | rank |")).toBe(
    written(["status", "rank", "stage", "webhook event", "error"], rows),
  );
});

/** Rows: the status before; columns: the one observed; a cell: the status after it. */
function transitions<Status extends string>(
  statuses: readonly Status[],
  step: (
    state: TrackedState<Status>,
    seen: { status: Status; error: null; at: number },
  ) => { readonly state: TrackedState<Status> },
): string[][] {
  return [null, ...statuses].map((from) => [
    from ?? "(none)",
    ...statuses.map((status) => {
      const after = step({ ...unobserved, status: from }, { status, error: null, at: 1 }).state
        .status;
      return after === null || after === from ? "=" : after;
    }),
  ]);
}

test("the transitions of messages in docs/concepts/message-states.md are those of the state machine", () => {
  const statuses = statusesOf(messageStatuses);
  expect(tableOf("| message |")).toBe(
    written(["message", ...statuses], transitions(statuses, stepMessage)),
  );
});

test("the transitions of runs in docs/concepts/message-states.md are those of the state machine", () => {
  const statuses = statusesOf(runStatuses);
  expect(tableOf("| run |")).toBe(written(["run", ...statuses], transitions(statuses, stepRun)));
});
