import type { Command } from "commander";
import type { Io } from "./io.ts";

export const commandGroups = ["Run", "Inspect", "Repair", "Develop"] as const;
type Group = (typeof commandGroups)[number];

type Load = () => Promise<{ build(command: Command, io: Io): void }>;

interface CommandEntry {
  readonly name: string;
  readonly group: Group;
  readonly summary: string;
  readonly load: Load;
  /**
   * Its options and arguments, as the list of commands in `--help` shows them
   * (test/integration/cli/help.test.ts).
   */
  readonly usage: string;
}

/**
 * Every command in the order of `--help` and docs/reference/commands.md. Only the file of the
 * command that runs is loaded. It loads the rest when its action runs, so its help and its usage
 * errors need no package but commander (test/integration/cli/start.test.ts).
 */
export const commands: readonly CommandEntry[] = [
  ...inGroup("Run", {
    init: ["write the settings of a new relay, with new secrets", () => import("./init.ts")],
    serve: ["run the relay until it is stopped", () => import("./serve.ts")],
    console: ["open the web console in a browser, signed in", () => import("./console.ts")],
    reload: [
      "make the running relay read its settings and secrets again, and show what changed",
      () => import("./reload.ts"),
    ],
    config: ["check and show the settings", () => import("./config.ts"), ""],
    track: [
      "register sent messages, so that the relay tracks them and releases their parked events",
      () => import("./track.ts"),
    ],
    send: [
      "send one message through the messaging service and register it, once per key",
      () => import("./send.ts"),
    ],
    backup: [
      "copy the store while the relay runs, and check and audit the copy",
      () => import("./backup.ts"),
      "[options] <file>",
    ],
    migrate: ["copy everything from SQLite to PostgreSQL, or back", () => import("./migrate.ts")],
  }),
  ...inGroup("Inspect", {
    doctor: [
      "check settings, store, disk, clock, destinations, API keys and backlog, and show what to do",
      () => import("./doctor.ts"),
    ],
    healthcheck: [
      "check that the relay of the settings answers, for containers",
      () => import("./healthcheck.ts"),
    ],
    events: ["list, show and save received events", () => import("./events.ts"), ""],
    deliveries: ["list and count deliveries", () => import("./deliveries.ts"), ""],
    explain: [
      "show what happened to a message, run or event: its events, the verdict of each route, each attempt, and what is next",
      () => import("./explain.ts"),
      "[options] <name>",
    ],
    audit: ["verify from the rows that every event is accounted for", () => import("./audit.ts")],
  }),
  ...inGroup("Repair", {
    retry: [
      "send deliveries again: dead letters, delivered ones, or waiting ones at once",
      () => import("./retry.ts"),
      "[options] <delivery...>",
    ],
    replay: [
      "send all deliveries again that match a filter: dead letters, or delivered ones too",
      () => import("./replay.ts"),
    ],
    resume: [
      "send again to a destination that stopped (410 Gone), paused (429) or fails (its breaker is open)",
      () => import("./resume.ts"),
      "[options] [route]",
    ],
    reconcile: [
      "poll the service for messages whose status went quiet, and repair what webhooks lost",
      () => import("./reconcile.ts"),
    ],
    restore: [
      "replace the store by a backup, and keep the old store",
      async () => ({ build: (await import("./backup.ts")).buildRestore }),
      "[options] <file>",
    ],
  }),
  ...inGroup("Develop", {
    sandbox: [
      "run a local messaging service, so that you need no account",
      () => import("./sandbox.ts"),
    ],
    demo: [
      "run a relay beside the sandbox for about ten seconds: sends, statuses, faults, and a downstream that fails",
      () => import("./demo.ts"),
    ],
    trigger: [
      "post signed sample events to the relay of the settings, or to a URL, and check the answers",
      () => import("./trigger.ts"),
      "[options] [event] [name]",
    ],
    listen: [
      "forward the live events of a deployed relay to this machine, byte for byte, and catch up after sleep",
      () => import("./listen.ts"),
    ],
    verify: [
      "find out how a captured request was signed, and print the settings for it",
      () => import("./verify.ts"),
    ],
  }),
];

function inGroup(
  group: Group,
  entries: Readonly<Record<string, readonly [summary: string, load: Load, usage?: string]>>,
): CommandEntry[] {
  return Object.entries(entries).map(([name, [summary, load, usage = "[options]"]]) => ({
    name,
    group,
    summary,
    load,
    usage,
  }));
}
