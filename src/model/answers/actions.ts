import { z } from "zod";
import { component, foreign, time, type View } from "../view.ts";
import { account, count, foreignText, route, text } from "./fields.ts";

const matching = count.describe("Number of deliveries.");

export const replayCountSchema = component("ReplayCount", "What a replay would send.", {
  matching: count.describe(
    "Deliveries that would be sent again; for quarantined events, those that are valid now.",
  ),
  routes: z
    .array(
      z.object({
        route,
        matching,
        stopped: foreignText.describe("Why its destination is stopped; null when it is not."),
      }),
    )
    .describe("The same by route."),
  notSent: z
    .array(z.object({ route, matching }))
    .describe(
      "Deliveries that match but cannot be sent: their route is not in the settings, or a proxied exchange has ended.",
    ),
  invalid: z
    .array(
      z.object({
        reason: foreign.describe("Why they are not valid."),
        events: count.describe("Number of events."),
      }),
    )
    .exactOptional()
    .describe("For quarantined events: those that are not valid."),
});
export type ReplayCount = z.infer<typeof replayCountSchema>;
export type ReplayCountView = View<typeof replayCountSchema>;

export const replayedSchema = component("Replayed", "One step of a replay.", {
  replayed: count.describe("Deliveries sent again; for quarantined events, the number released."),
  next: text.describe("`cursor` of the next request; null when nothing is left."),
  duplicates: count
    .exactOptional()
    .describe("For quarantined events: those whose event id was known."),
  invalid: count
    .exactOptional()
    .describe("For quarantined events: those that are not valid and stay quarantined."),
});
export type ReplayStep = View<typeof replayedSchema>;

export const resumedSchema = component("ResumedRoute", "A route after `resume`.", {
  route,
  resumed: z
    .boolean()
    .describe(
      "False when its destination was neither stopped nor paused, and its breaker not open.",
    ),
});

export const handshakeSchema = component(
  "Handshake",
  "Meta's handshake with a route's destination.",
  {
    route,
    result: z
      .enum(["done", "remembered", "failed"])
      .describe(
        "`remembered`: an earlier handshake with this URL and token succeeded, and none was performed now.",
      ),
    doneAt: time.nullable().describe("When the last one succeeded; null: none has."),
    problem: foreign
      .nullable()
      .describe("What is wrong with the destination's answer; null unless `failed`."),
  },
);
export type HandshakeView = View<typeof handshakeSchema>;

export const accountResumedSchema = component("ResumedAccount", "An account after `resume`.", {
  account,
  resumed: z.boolean().describe("False when it had no stops."),
  ended: z.array(z.string()).describe("Names of the stops that ended."),
});
