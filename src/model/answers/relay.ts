import { z } from "zod";
import { deliveryStates, dispositions } from "../states.ts";
import { component, foreign, time, type View } from "../view.ts";
import { count, counts, seq, source, text } from "./fields.ts";

export const statsSchema = component(
  "Stats",
  "The sums of the stored events, deliveries and attempts.",
  {
    dispositions: z
      .object(counts(dispositions, (word) => `Events with the disposition \`${word}\`.`))
      .describe("Events by disposition."),
    duplicates: count.describe("How often a known event id was received again."),
    deliveries: z
      .object(counts(deliveryStates, (word) => `Deliveries in the state \`${word}\`.`))
      .describe("Deliveries by state."),
    attempts: z
      .object({ made: count.describe("All attempts."), failed: count.describe("Failed attempts.") })
      .describe("Attempts."),
  },
);
export type RelayStats = z.infer<typeof statsSchema>;

const secretUseSchema = component(
  "SecretUse",
  "How often one secret of a source verified webhooks.",
  {
    source,
    secret: z.string().describe("The secret's fingerprint."),
    place: text.describe(
      "Its place in the current settings, such as `sources.main.signature.secrets[0]`; null when it was removed.",
    ),
    events: count.describe(
      "Stored events that it verified, including quarantined ones, excluding duplicates.",
    ),
    duplicates: count.describe("Duplicates that it verified."),
    firstAt: time.nullable().describe("When it first verified a webhook; null when it never did."),
    lastAt: time.nullable().describe("When it last verified a webhook; null when it never did."),
  },
);
export type SecretUse = z.infer<typeof secretUseSchema>;
export type SecretUseView = View<typeof secretUseSchema>;

export const secretUsesSchema = component("SecretUses", "The usage of each secret.", {
  data: z
    .array(secretUseSchema)
    .describe("Secrets of the settings first, in their order there; then removed ones."),
});

const sourceSchema = component("Source", "A source of the settings, and what arrived there.", {
  source,
  kind: z.enum(["events", "automation-request"]).describe("Its kind."),
  format: z
    .enum(["standard", "meta"])
    .nullable()
    .describe("Its format; null for automations' requests."),
  accounts: z.array(z.string()).describe("The accounts that its events may have."),
  handshake: z
    .object({ doneAt: time.nullable().describe("When one was last answered; null: none was.") })
    .nullable()
    .describe("Meta's handshake with this source; null: it has no `verifyTokens`."),
  numbers: z
    .array(
      z.object({
        number: z.string().describe("`phone_number_id`, or the id of the business account."),
        account: text.describe(
          "The account that the settings map it to, else that of its last event; null: none.",
        ),
        lastAt: time.describe("When its last event was received, to the minute."),
      }),
    )
    .describe("Of Meta's format: the numbers of the last 90 days."),
});
export type SourceView = View<typeof sourceSchema>;

export const sourceCheckSchema = component(
  "SourceCheck",
  "What Meta's Graph API says of a source.",
  {
    source,
    problems: z
      .array(z.string())
      .describe("Why webhooks do not arrive, or go elsewhere; none: nothing is wrong."),
    facts: z.array(z.string()).describe("What is right."),
  },
);
export type SourceCheckView = View<typeof sourceCheckSchema>;

export const sourcesSchema = component("Sources", "The sources of the settings.", {
  data: z.array(sourceSchema).describe("The sources, in the order of the settings."),
});

const faultSchema = component("SettingsFault", "A fault in the settings file.", {
  path: z.string().describe("The setting."),
  message: z.string().describe("What is wrong."),
  source: z.string().describe("File, line and column, and the variable that the value comes from."),
});

export const reloadSchema = component(
  "Reload",
  "The result of the last reload of the settings; before the first one, the start.",
  {
    result: z
      .enum(["applied", "refused"])
      .describe("`refused`: the settings have faults, and the previous ones stay in effect."),
    trigger: z
      .enum(["start", "signal", "api"])
      .describe("What caused it: the start, SIGHUP, or `POST /v1/reload`."),
    at: time.describe("When it was done."),
    file: text.describe(
      "The settings file that the relay reads; null when the process was started without one.",
    ),
    loadedAt: time.describe("When the settings in effect were read."),
    changed: z
      .array(z.string())
      .describe(
        "Paths of the settings that changed, such as `sources.main.signature.secrets` or `routes[crm].to.url`.",
      ),
    needRestart: z
      .array(z.string())
      .describe("Paths of changed settings that have no effect before a restart."),
    overridden: z
      .array(z.string())
      .describe(
        "Variables of the env file that have another value in the process environment, which takes precedence.",
      ),
    dropped: z
      .array(
        z.object({
          source,
          secret: z.string().describe("Fingerprint of the secret."),
          lastAt: time.describe("When it last verified an event."),
        }),
      )
      .describe(
        "Secrets that this reload removed although they verified an event within the last hour. Webhooks signed with them get 401.",
      ),
    faults: z.array(faultSchema).describe("Why it was refused."),
  },
);
export type Reload = z.infer<typeof reloadSchema>;
export type ReloadView = View<typeof reloadSchema>;

export const settingsViewSchema = component("Settings", "The settings in effect.", {
  loadedAt: time.describe("When the settings in effect were read."),
  file: text.describe("The settings file; null when the process was started without one."),
  settings: z
    .record(z.string(), z.unknown())
    .describe(
      "The settings in effect, by section, with defaults filled in. Secrets are shown as `[secret <fingerprint>]`.",
    ),
});
export type SettingsView = View<typeof settingsViewSchema>;
export type RelaySettings = z.infer<typeof settingsViewSchema>;

export const instanceSchema = component("Instance", "The process that answered.", {
  instance: z.string().describe("Identifies this process; a restart gives another one."),
  version: z.string().describe("Its version."),
  pid: z.int().describe("Its process id."),
  host: z.string().describe("The name of its host."),
  role: z.enum(["receive", "both"]).describe("Its role."),
  startedAt: time.describe("When it started."),
  store: z
    .object({
      driver: z.enum(["sqlite", "postgres"]).describe("The engine."),
      place: z
        .string()
        .describe(
          "The file, or the address of the server without user and password, with the schema or prefix.",
        ),
    })
    .describe("Its store."),
});
export type InstanceView = View<typeof instanceSchema>;
export type RelayInstance = z.infer<typeof instanceSchema>;

const listenerSchema = component(
  "Listener",
  "A connected listener, or the cursor of one that is not connected.",
  {
    name: text.describe(
      "The name of its cursor, masked when it looks like a phone number; null when it has none.",
    ),
    connectedAt: time
      .nullable()
      .describe("When it connected to this process; null: it is not connected here."),
    movedAt: time.nullable().describe("When its stored cursor last moved; null when it has none."),
    position: seq.describe(
      "Everything up to this seq was sent, or is done according to the cursor.",
    ),
    lag: count.describe("Number of seqs after its position."),
  },
);
export type ListenerView = View<typeof listenerSchema>;
export type RelayListener = z.infer<typeof listenerSchema>;

export const listenersSchema = component(
  "Listeners",
  "The listeners of this process, and the stored cursors.",
  {
    data: z
      .array(listenerSchema)
      .describe("Connected listeners first, then the other cursors, the latest moved first."),
  },
);

export const cursorSchema = component(
  "Cursor",
  "The cursor of a listener, which never goes back.",
  {
    name: foreign.describe("The listener's name."),
    seq: seq.describe("Everything up to this seq is done."),
  },
);

export const sessionSchema = component("Session", "A session of the console.", {
  name: z.string().describe("The token's name."),
  scopes: z.array(z.string()).describe("The token's scopes."),
  accounts: z
    .array(z.string())
    .nullable()
    .describe("The accounts that the token is limited to; null: it is not limited."),
  expiresAt: time.describe("When the session ends."),
});
export type RelaySession = z.infer<typeof sessionSchema>;

export const sessionEndedSchema = component("EndedSession", "A session after its end.", {
  ended: z.boolean().describe("False when there was no session."),
});

export const sessionCodeSchema = component("SessionCode", "A code that starts one session.", {
  code: z.string().describe("The code."),
  expiresAt: time.describe("Until when it can be used."),
});
export type SessionCode = z.infer<typeof sessionCodeSchema>;
