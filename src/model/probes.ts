import { z } from "zod";
import { count } from "./answers.ts";
import { component } from "./view.ts";

const text = z.string().nullable();
/** Written as text already: alerts have the same alarms. */
const time = z.iso.datetime();

export const healthSchema = component("Health", "A running process.", {
  status: z.literal("ok").describe("Always `ok`."),
  instance: z.string().describe("Identifies the process."),
  version: z.string().describe("Version of wamid-relay."),
});

const alarmSchema = component("Alarm", "A condition that needs action.", {
  alarm: z.string().describe("What is wrong: [alerts](../how-to/monitor-and-alert.md)."),
  account: text.describe("The account; null where the alarm is not about one."),
  route: text.describe("The route; null where the alarm is not about one."),
  text: z.string().describe("What is wrong, for people."),
  causes: z.array(z.string()).describe("Possible causes, the most likely first."),
  since: time.describe("When it began."),
});

const stopSchema = component("ServiceStop", "Calls to the service that this process refuses.", {
  account: z.string().describe("The account."),
  reason: z.string().describe("As in [`relay_service_stopped`](metrics.md)."),
  resource: text.describe("The service's name of the quota; null when unknown."),
  until: time.describe("When the next call tries again."),
});

export const readinessSchema = component(
  "Readiness",
  "Whether the process takes webhooks. Alarms, stops and settings do not matter for it.",
  {
    ready: z.boolean().describe("Whether the relay can store events and is not stopping."),
    draining: z.boolean().describe("Whether the relay is stopping."),
    store: z.enum(["ok", "failing"]).exactOptional().describe("Whether the last write succeeded."),
    reason: text.exactOptional().describe("Why the store fails; null when it does not."),
    alarms: z.array(alarmSchema).exactOptional().describe("The alarms in force."),
    stops: z.array(stopSchema).exactOptional().describe("Stopped calls to the service."),
    settings: z
      .object({
        loadedAt: time.describe("When they were read."),
        refusedAt: time.nullable().describe("When a reload was refused; null when the last one was applied."),
        faults: count.describe("Number of faults of the refused settings."),
        needRestart: z.array(z.string()).describe("Changed settings that need a restart."),
      })
      .exactOptional()
      .describe("The last reload."),
  },
);
