import { z } from "zod";
import { accountsSchema, reconciledSchema, reconcilePlanSchema } from "../answers/accounts.ts";
import {
  accountResumedSchema,
  handshakeSchema,
  replayCountSchema,
  replayedSchema,
  resumedSchema,
} from "../answers/actions.ts";
import { retriedSchema } from "../answers/events.ts";
import { count } from "../answers/fields.ts";
import {
  instanceSchema,
  listenersSchema,
  reloadSchema,
  secretUsesSchema,
  sessionCodeSchema,
  sessionEndedSchema,
  sessionSchema,
  settingsViewSchema,
  sourceCheckSchema,
  sourcesSchema,
} from "../answers/relay.ts";
import { givenTime, replayBody } from "../queries.ts";
import { component } from "../view.ts";

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
        refusedAt: time
          .nullable()
          .describe("When a reload was refused; null when the last one was applied."),
        faults: count.describe("Number of faults of the refused settings."),
        needRestart: z.array(z.string()).describe("Changed settings that need a restart."),
      })
      .exactOptional()
      .describe("The last reload."),
  },
);

const openApiSchema = z
  .looseObject({
    openapi: z.string().describe("The version of OpenAPI."),
    info: z.record(z.string(), z.unknown()).describe("Title and version of the relay."),
    paths: z.record(z.string(), z.unknown()).describe("The operations by path."),
    components: z
      .record(z.string(), z.unknown())
      .describe("The schemas and answers that the operations refer to."),
  })
  .meta({ id: "OpenApi", description: "A document of OpenAPI 3.1." });

/** The process, its settings, and what acts on deliveries. */
export const operating = {
  getHealth: {
    scope: null,
    accounts: "none",
    open: true,
    summary: "Whether the process answers",
    answers: { 200: { schema: healthSchema } },
  },
  getReadiness: {
    scope: null,
    accounts: "none",
    open: true,
    summary: "Whether the relay can store events and is not stopping",
    description:
      "With `server.control`, the answer on `server.port` has only `ready` and `draining`.",
    answers: {
      200: { text: "It is ready.", schema: readinessSchema },
      503: {
        text: "It is starting or stopping, or its store is unavailable.",
        schema: readinessSchema,
      },
    },
  },
  describe: {
    scope: "read",
    accounts: "none",
    summary: "This description",
    answers: { 200: { schema: openApiSchema } },
  },
  listSecrets: {
    scope: "read",
    accounts: "whole",
    summary: "How often each secret verified webhooks, and when last, by fingerprint",
    answers: { 200: { schema: secretUsesSchema } },
  },
  listSources: {
    scope: "read",
    accounts: "whole",
    summary:
      "The sources of the settings, with Meta's handshakes and the numbers that events came for",
    answers: { 200: { schema: sourcesSchema } },
  },
  checkSource: {
    scope: "replay",
    accounts: "whole",
    summary: "Asks Meta's Graph API whether the webhooks of a source go to it",
    description:
      "For a source with `graph`. Reads subscribed apps, callbacks and their overrides, and changes nothing.",
    params: z.strictObject({ source: z.string().describe("The source's name.") }),
    answers: { 200: { schema: sourceCheckSchema } },
    errors: ["not_found", "conflict"],
  },
  getInstance: {
    scope: "read",
    accounts: "whole",
    summary: "This process: its version, its role and its store",
    answers: { 200: { schema: instanceSchema } },
  },
  reloadSettings: {
    scope: "replay",
    accounts: "whole",
    summary: "Reads the settings, the env file and the secret files again, as SIGHUP does",
    description:
      "Applies to the process that answers. If anything is faulty, that process keeps the settings that it has.",
    answers: { 200: { schema: reloadSchema } },
    errors: ["settings_refused", "conflict"],
  },
  getReload: {
    scope: "read",
    accounts: "whole",
    summary: "What the last reload did, whether by SIGHUP or `POST /v1/reload`",
    answers: { 200: { schema: reloadSchema } },
  },
  getSettings: {
    scope: "read",
    accounts: "whole",
    summary: "The settings in effect, with secrets masked",
    description:
      "As `wamid-relay config print` shows them. Sections that need a restart are those of the start.",
    answers: { 200: { schema: settingsViewSchema } },
  },
  listListeners: {
    scope: "read",
    accounts: "whole",
    summary: "Connected listeners, and the cursors of others",
    description:
      "Several processes share the cursors. A listener is connected to one of them, which alone lists the connection.",
    answers: { 200: { schema: listenersSchema } },
  },
  retryDelivery: {
    scope: "replay",
    accounts: "narrowed",
    summary: "Sends a delivery now",
    description:
      "A settled delivery waits again, under the same id. A held one stays held behind its message's earlier delivery.",
    params: z.strictObject({ id: z.string().describe("The delivery's id.") }),
    answers: { 200: { schema: retriedSchema } },
    errors: ["not_found", "conflict"],
  },
  replay: {
    scope: "replay",
    accounts: "narrowed",
    summary: "Sends deliveries again, in order, or releases quarantined events",
    description:
      "Every condition must hold; without one, every dead letter matches. One request ends after a few seconds: repeat it with `cursor` until `next` is null.",
    body: replayBody,
    answers: {
      200: {
        text: "The number sent, and `next` for the rest. With `dryRun`: what would be sent.",
        schema: z.union([replayedSchema, replayCountSchema]),
      },
    },
    errors: ["not_found"],
  },
  resumeRoute: {
    scope: "replay",
    accounts: "whole",
    summary:
      "Tries a destination now that stopped (410), paused (429 with Retry-After) or fails (its breaker is open)",
    params: z.strictObject({ route: z.string().describe("The route's name.") }),
    answers: { 200: { schema: resumedSchema } },
    errors: ["not_found"],
  },
  performHandshake: {
    scope: "replay",
    accounts: "whole",
    summary: "Performs Meta's handshake with a destination that has a `verifyToken`",
    description:
      "Sends `GET <url>?hub.mode=subscribe&hub.challenge=…&hub.verify_token=…`. It succeeds if the destination answers 200 and the challenge. A success is stored and not repeated, because some apps delete the token with it.",
    params: z.strictObject({ route: z.string().describe("The route's name.") }),
    body: z
      .strictObject({
        repeat: z
          .boolean()
          .default(false)
          .describe("Performs it again although an earlier one succeeded."),
      })
      .prefault({}),
    answers: { 200: { schema: handshakeSchema } },
    errors: ["not_found", "conflict"],
  },
  resumeAccount: {
    scope: "replay",
    accounts: "narrowed",
    summary: "Ends the stops of an account's used-up quotas",
    description:
      "Also discards smaller per-minute caps that the service reported. The next refused call stops the account again.",
    params: z.strictObject({ account: z.string().describe("The account's name.") }),
    answers: { 200: { schema: accountResumedSchema } },
    errors: ["not_found"],
  },
  reconcile: {
    scope: "replay",
    accounts: "narrowed",
    summary: "Polls the service for messages that are due",
    description:
      "One request takes at most five seconds. While `more` is true, repeat it with the answer's `dueBy` to continue the pass. Routes receive what it finds.",
    body: z
      .strictObject({
        account: z.string().optional().describe("Only this account."),
        dryRun: z.boolean().default(false).describe("Only return the plan."),
        dueBy: givenTime
          .nullable()
          .default(null)
          .describe("`dueBy` of the previous answer, to continue the same pass."),
      })
      .prefault({}),
    answers: {
      200: {
        text: "The results by account.",
        schema: z.union([reconciledSchema, reconcilePlanSchema]),
      },
    },
    errors: ["shutting_down"],
  },
  listAccounts: {
    scope: "read",
    accounts: "narrowed",
    summary: "The accounts, with their stops, budget and last reconciliation pass",
    description: "With several processes, `lastPass` is the last one of any process.",
    answers: { 200: { schema: accountsSchema } },
  },
} as const;

export const sessions = {
  startSession: {
    scope: null,
    accounts: "none",
    open: true,
    summary: "Signs in to the console",
    description:
      "Sets a cookie for 12 hours. A request with the cookie needs the header `x-wamid-relay: console`. Changing or removing the token ends its sessions. A bad token or code counts toward `control.badTokenLimit`.",
    body: z.union([
      z.strictObject({
        token: z.string().min(1).max(4096).describe("A token of `control.tokens`."),
      }),
      z.strictObject({
        code: z
          .string()
          .min(1)
          .max(256)
          .describe("A code of `POST /v1/session/code`. It works once, for 60 seconds."),
      }),
    ]),
    answers: { 200: { schema: sessionSchema } },
  },
  getSession: {
    scope: null,
    accounts: "none",
    open: true,
    summary: "The session of the cookie",
    answers: { 200: { schema: sessionSchema } },
  },
  endSession: {
    scope: null,
    accounts: "none",
    open: true,
    summary: "Signs out",
    description: "Ends the session of the cookie on all processes, and deletes the cookie.",
    answers: { 200: { schema: sessionEndedSchema } },
  },
  createSessionCode: {
    scope: null,
    accounts: "none",
    summary: "A one-time code that signs in to the console",
    description:
      "For 60 seconds, with the rights of the bearer token. A session cannot create one.",
    answers: { 200: { schema: sessionCodeSchema } },
  },
} as const;
