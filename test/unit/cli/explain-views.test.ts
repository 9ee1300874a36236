import { expect, test } from "vitest";
import { explainedSchema } from "../../../src/cli/control-views.ts";

test("what an older relay explains is read too: it knows of no events that wait to be planned", () => {
  expect(explainedSchema.parse({ data: [] })).toEqual({ data: [], unseen: 0 });
  const { events } = explainedSchema.shape.data.element.shape;
  expect(events.element.shape.waits.parse(undefined)).toBeNull();
});
